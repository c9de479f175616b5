"""Pairs of views that may share a byte, found without comparing every view with every other.

Law: every pair of views of one tensor that shares a byte is among the candidates. Most tensors are
swept in order of the first byte. A tensor that is cut into tiles of few columns has many views
whose byte ranges cross without touching; its views are dealt to the cells of a grid of tiles
instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nki_agent.program.overlap import Form

Ints = NDArray[np.int64]
Pairs = tuple[Ints, Ints]

ADDRESS_BITS = 37
"""Bits of a byte offset in a tensor: validation bounds tensors at 2^36 bytes."""
PAIRS_MAX = 4_000_000
"""Candidates that are looked at; beyond it the tensors with the most count as one view each."""
CROSSINGS_PER_VIEW = 8
"""Byte ranges that cross that of a view, on average, from which a grid is tried."""
CROSSINGS_MIN = 4096


class FormColumns:
    """Facts of every form, as columns."""

    def __init__(self, forms: Sequence[Form]) -> None:
        """Take the facts of each form; `stride` and `count` are of the outermost step, if any."""
        self.forms = forms
        self.low = np.array([f.low for f in forms], np.int64)
        self.extent = np.array([f.extent for f in forms], np.int64)
        self.start = np.array([f.partition_start for f in forms], np.int64)
        self.end = np.array([f.partition_end for f in forms], np.int64)
        self.run = np.array([f.run for f in forms], np.int64)
        outer = [f.steps[0] if f.steps else (0, 1) for f in forms]
        self.stride = np.array([stride for stride, _ in outer], np.int64)
        self.count = np.array([count for _, count in outer], np.int64)
        self.plain = np.array([_is_plain(f) for f in forms], np.bool_)


def _is_plain(form: Form) -> bool:
    """Whether a view has at most one stride, and none over partitions."""
    return len(form.steps) <= 1 and (form.partition_step == 1 or form.partition_count == 1)


@dataclass(frozen=True, slots=True)
class Views:
    """The distinct views, sorted by tensor and first byte."""

    tensor: Ints
    form: Ints
    first_byte: Ints


def find_candidates(views: Views, table: FormColumns) -> tuple[Pairs, Ints]:
    """Candidates, the lower view first, and the tensors left out for having too many."""
    count = _count_crossings(views, table)
    tensors, index, sizes = np.unique(views.tensor, return_inverse=True, return_counts=True)
    crossings = np.bincount(index, count, len(tensors)).astype(np.int64)
    dense = crossings > np.maximum(CROSSINGS_PER_VIEW * sizes, CROSSINGS_MIN)
    ends = np.cumsum(sizes)
    found: list[Pairs] = []
    for number in np.flatnonzero(dense).tolist():
        low, high = int(ends[number] - sizes[number]), int(ends[number])
        pairs = _pair_in_grid(views, table, (low, high), int(crossings[number]))
        if pairs is not None:
            found.append(pairs)
            crossings[number] = len(pairs[0])
            count[low:high] = 0
    crowded = _most_crowded(crossings)
    count[np.isin(index, crowded)] = 0
    found = [p for p in found if not np.isin(index[p[0][:1]], crowded).any()]
    found.append(_expand(np.arange(len(count)), count))
    first, second = (np.concatenate(side) for side in zip(*found, strict=True))
    return (first, second), tensors[crowded]


def _count_crossings(views: Views, table: FormColumns) -> Ints:
    """For each view, the views after it whose first byte lies before its end."""
    # A rank in place of the tensor's id keeps the keys in 63 bits.
    rank = np.unique(views.tensor, return_inverse=True)[1].astype(np.int64)
    begin = (rank << ADDRESS_BITS) + views.first_byte
    end = np.searchsorted(begin, begin + table.extent[views.form], side="left")
    return np.asarray(end - np.arange(len(begin)) - 1, np.int64)


def _most_crowded(crossings: Ints) -> Ints:
    """As few tensors as bring the total under the limit, those with the most candidates."""
    total = int(crossings.sum())
    if total <= PAIRS_MAX:
        return np.zeros(0, np.int64)
    order = np.argsort(-crossings, kind="stable")
    left = total - np.cumsum(crossings[order])
    return np.sort(order[: int(np.argmax(left <= PAIRS_MAX)) + 1])


def _expand(start: Ints, count: Ints) -> Pairs:
    """Each `start` paired with the `count` numbers after it."""
    first = np.repeat(start, count)
    skipped = np.repeat(np.cumsum(count) - count, count)
    return first, first + 1 + np.arange(len(first)) - skipped


def _pair_in_grid(
    views: Views, table: FormColumns, span: tuple[int, int], limit: int
) -> Pairs | None:
    """Pairs of one tensor's views, if a grid of its commonest tile gives fewer than `limit`."""
    low, high = span
    form, byte = views.form[low:high], views.first_byte[low:high]
    pitch = int(table.stride[form].max())
    forms, numbers = np.unique(form, return_counts=True)
    common = forms[np.argmax(numbers)]
    height, width = int(table.count[common]), int(table.run[common])
    if not pitch:
        return None
    row, column = byte // pitch, byte % pitch
    tall = (row + table.count[form] - 1) // height != row // height
    wide = (column + table.run[form] - 1) // width != column // width
    even = table.plain[form] & ((table.stride[form] == pitch) | (table.stride[form] == 0))
    small = np.flatnonzero(even & ~tall & ~wide & (column + table.run[form] <= pitch))
    large = np.setdiff1d(np.arange(high - low), small)
    cell = row[small] // height * (pitch // width + 1) + column[small] // width
    order = np.argsort(cell, kind="stable")
    sizes = np.unique(cell, return_counts=True)[1]
    total = int((sizes * (sizes - 1) // 2).sum()) + len(large) * (high - low)
    if total >= limit:
        return None
    places = np.arange(len(small))
    after = np.repeat(np.cumsum(sizes), sizes) - places - 1
    one, two = _expand(places, after)
    one, two = small[order[one]], small[order[two]]
    big = np.repeat(large, high - low)
    other = np.tile(np.arange(high - low), len(large))
    # Two large views are paired once, by the lower.
    keep = (big != other) & ((big < other) | ~np.isin(other, large))
    first = np.concatenate([one, big[keep]])
    second = np.concatenate([two, other[keep]])
    return low + np.minimum(first, second), low + np.maximum(first, second)
