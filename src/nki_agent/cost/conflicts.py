"""Which operands of a Program touch the same bytes, for the scheduler's look-ups.

Law: two operands that share a byte of a tensor have views that are near each other. A tensor that
nothing writes orders nothing, so its views are not tracked. Where a tensor has so many overlapping
views that following them would dominate, all its operands count as one view: too many waits, never
too few.
Not covered: tensors that share addresses (the scheduler takes those from a Placement).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from nki_agent.cost.pairs import ADDRESS_BITS, FormColumns, Ints, Pairs, Views, find_candidates
from nki_agent.cost.plan import ordered_writes
from nki_agent.isa.signature import Signature
from nki_agent.program.overlap import Form, find_form, is_overlapping
from nki_agent.program.records import Instruction, Tensor
from nki_agent.program.registers import reachable

EMPTY: Mapping[int, tuple[int, ...]] = {}
UNTRACKED = -1
"""View of an operand that orders nothing."""
VISITS_PER_ACCESS = 64
"""Views that an operand of a tensor may visit on average; beyond it the tensor is one view."""
EXACT_MAX = 10_000
"""Different relative positions that are looked at exactly; beyond it they count as overlapping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflicts:
    """A view for each tensor operand of each instruction, in program order."""

    views: list[int]
    near: list[tuple[int, ...]]
    """For each view: itself and those that share a byte with it."""


def find_conflicts(
    body: Sequence[Instruction],
    signatures: Sequence[Signature],
    *,
    tensors: Sequence[Tensor] = (),
    moved: Mapping[int, tuple[int, ...]] = EMPTY,
) -> Conflicts:
    """Name the views that a body touches and find which overlap.

    `moved` names rows of the body and their operands that may lie anywhere in their `tensors`.
    """
    accesses = _Accesses(body, signatures, tensors, moved)
    views, near, merged = _compare(accesses, np.zeros(0, np.int64))
    heavy = _heavy_tensors(accesses, views, near)
    if len(merged) or len(heavy):
        views, near, _ = _compare(accesses, np.union1d(merged, heavy))
    return Conflicts(views=views.tolist(), near=near)


class _Accesses:
    """Tensor, form and first byte of every tensor operand, as columns."""

    def __init__(
        self,
        body: Sequence[Instruction],
        signatures: Sequence[Signature],
        tensors: Sequence[Tensor],
        moved: Mapping[int, tuple[int, ...]],
    ) -> None:
        operands = [[o for o in s.operands if not o.is_immediate] for s in signatures]
        ids: dict[Form, int] = {}
        form_ids = [ids.setdefault(find_form(o), len(ids)) for o in chain.from_iterable(operands)]
        anywhere: list[tuple[int, int, int]] = []
        for row, places in moved.items():
            for which in places:
                node = body[row]
                view = reachable(operands[node.signature][which], tensors[node.tensors[which]])
                anywhere.append((row, which, ids.setdefault(find_form(view), len(ids))))
        self.forms = list(ids) or [Form(0, 1, 1, (), 0, 1, 1)]
        self.table = FormColumns(self.forms)
        counts = np.array([len(o) for o in operands], np.int64)
        first = np.cumsum(counts) - counts
        signature = np.fromiter((i.signature for i in body), np.int64, len(body))
        per_instruction = counts[signature] if len(body) else np.zeros(0, np.int64)
        total = int(per_instruction.sum())
        starts = np.cumsum(per_instruction) - per_instruction
        place = np.arange(total) - np.repeat(starts, per_instruction)
        slot = np.repeat(first[signature] if len(body) else first[:0], per_instruction) + place
        self.form = np.array(form_ids or [0], np.int64)[slot]
        self.tensor = np.fromiter(chain.from_iterable(i.tensors for i in body), np.int64, total)
        offsets = chain.from_iterable(i.offsets for i in body)
        first_byte = np.fromiter(offsets, np.int64, total)
        if anywhere:
            at, operand, forms = np.array(anywhere, np.int64).T
            self.form[starts[at] + operand] = forms
            first_byte[starts[at] + operand] = 0
        self.first_byte = first_byte + self.table.low[self.form]
        self.tracked = self._written(signatures, counts, slot)

    def _written(self, signatures: Sequence[Signature], counts: Ints, slot: Ints) -> Ints:
        """Operands of tensors that some instruction writes."""
        writes = np.zeros(max(1, int(counts.sum())), np.bool_)
        for signature, end, count in zip(signatures, np.cumsum(counts), counts, strict=True):
            writes[[int(end - count) + p for p in ordered_writes(signature)]] = True
        written = np.zeros(int(self.tensor.max(initial=0)) + 1, np.bool_)
        written[self.tensor[writes[slot]]] = True
        return np.flatnonzero(written[self.tensor])

    def intern(self, *, whole: Ints) -> tuple[Ints, Views]:
        """Number the distinct views; operands of tensors in `whole` share one."""
        tensor = self.tensor[self.tracked]
        form = self.form[self.tracked]
        first_byte = self.first_byte[self.tracked]
        merged = np.isin(tensor, whole)
        form[merged], first_byte[merged] = 0, 0
        place, place_id = np.unique((tensor << ADDRESS_BITS) + first_byte, return_inverse=True)
        num_forms = len(self.forms)
        key, view = np.unique(place_id * num_forms + form, return_inverse=True)
        place = place[key // num_forms]
        views = np.full(len(self.tensor), UNTRACKED, np.int64)
        views[self.tracked] = view
        byte = place & ((1 << ADDRESS_BITS) - 1)
        return views, Views(place >> ADDRESS_BITS, key % num_forms, byte)


def _compare(accesses: _Accesses, whole: Ints) -> tuple[Ints, list[tuple[int, ...]], Ints]:
    """The view of each operand, the views near each, and the tensors that were not compared."""
    views, owners = accesses.intern(whole=whole)
    candidates, crowded = find_candidates(owners, accesses.table)
    near = _group(len(owners.tensor), _overlapping(accesses, owners, candidates))
    return views, near, crowded


def _group(num_views: int, pairs: Pairs) -> list[tuple[int, ...]]:
    near: list[tuple[int, ...]] = [(v,) for v in range(num_views)]
    first, second = pairs
    if not len(first):
        return near
    source = np.concatenate([first, second])
    other = np.concatenate([second, first])
    order = np.argsort(source, kind="stable")
    source, other = source[order], other[order]
    view, start = np.unique(source, return_index=True)
    ends = [*start[1:].tolist(), len(source)]
    others = other.tolist()
    for index, low, high in zip(view.tolist(), start.tolist(), ends, strict=True):
        near[index] = (index, *others[low:high])
    return near


def _overlapping(accesses: _Accesses, owners: Views, candidates: Pairs) -> Pairs:
    """The candidates that share a byte."""
    table = accesses.table
    first, second = candidates
    form, other = owners.form[first], owners.form[second]
    apart = (table.start[form] >= table.end[other]) | (table.start[other] >= table.end[form])
    if apart.any():
        keep = ~apart
        first, second, form, other = first[keep], second[keep], form[keep], other[keep]
    sure = _look(table, form, other, owners.first_byte[second] - owners.first_byte[first])
    return first[sure], second[sure]


def _look(table: FormColumns, form: Ints, other: Ints, delta: Ints) -> NDArray[np.bool_]:
    """Whether pairs overlap whose boxes do: by formula where both have one stride, else closely."""
    stride = np.maximum(table.stride[form], table.stride[other])
    plain = table.plain[form] & table.plain[other]
    for side in (form, other):
        plain &= (table.stride[side] == stride) | (table.stride[side] == 0)
    # The second starts `delta` bytes on; some number of strides, forward as far as its own count
    # and back as far as the first's, has to bring its run onto the first's.
    step = np.maximum(stride, 1)
    least = -((table.run[other] - 1 + delta) // step)
    most = (table.run[form] - 1 - delta) // step
    least = np.maximum(least, 1 - table.count[form])
    answers: NDArray[np.bool_] = least <= np.minimum(most, table.count[other] - 1)
    close = np.flatnonzero(~plain)
    if len(close):
        answers[close] = _look_closely(table.forms, form[close], other[close], delta[close])
    return answers


def _look_closely(forms: Sequence[Form], form: Ints, other: Ints, delta: Ints) -> NDArray[np.bool_]:
    """Whether each pair of strided views overlaps; each relative position is looked at once."""
    pairs, pair = np.unique(form * len(forms) + other, return_inverse=True)
    keys, key = np.unique((pair << ADDRESS_BITS) + delta, return_inverse=True)
    if len(keys) > EXACT_MAX:
        return np.ones(len(form), np.bool_)
    answers = np.zeros(len(keys), np.bool_)
    for index, packed in enumerate(keys.tolist()):
        one, two = divmod(int(pairs[packed >> ADDRESS_BITS]), len(forms))
        first, second = forms[one], forms[two]
        distance = packed & ((1 << ADDRESS_BITS) - 1)
        offset = distance + first.low - second.low
        answers[index] = is_overlapping(first, second, second_offset=offset)
    return answers[key]


def _heavy_tensors(accesses: _Accesses, views: Ints, near: list[tuple[int, ...]]) -> Ints:
    """Tensors whose operands would visit too many views."""
    tensor = accesses.tensor[accesses.tracked]
    sizes = np.fromiter((len(n) for n in near), np.int64, len(near))
    visits = np.bincount(tensor, sizes[views[accesses.tracked]])
    touched = np.bincount(tensor)
    return np.flatnonzero(visits > VISITS_PER_ACCESS * np.maximum(touched, VISITS_PER_ACCESS))
