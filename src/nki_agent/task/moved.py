"""Right values in wrong places: permuted axes, shifts, swapped or repeated tiles.

Each wrong line of the output is looked for among all lines of the reference; the distances between
where it lies and where it belongs tell a shift from a swap and from a line that is there twice.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.task.cause import SAME, SAME_MAX, Case, Cause, Guess, Mask, Reals
from nki_agent.task.region import tile_sizes

RANK_MAX = 5
_MATRIX_RANK = 2
COLUMNS_MAX = 32
"""Elements of a line that are compared."""
LINE_MIN = 8
"""Fewer elements could agree by chance; lines are joined until they have as many."""
BUDGET = 3_000_000
"""Pairs of elements that a search of one axis may compare."""
LINES_MIN, LINES_MAX = 3, 48
OFFSETS_MAX = 6
_FOUND = 0.85
_FOUND_JOINED = 0.35
_INSIDE = 0.9
_SUPPORT = 0.1
_HEAD = 256


def find_permutation(case: Case) -> Guess | None:
    """The right values in the memory order of permuted axes."""
    expected, actual = case.expected, case.actual
    if not 1 < expected.ndim <= RANK_MAX:
        return None
    head = actual.ravel()[:_HEAD]
    for axes in itertools.permutations(range(expected.ndim)):
        order = [axis for axis in axes if expected.shape[axis] > 1]
        if order == sorted(order):
            continue
        permuted = expected.transpose(axes)
        if case.is_same(permuted.flat[: head.size], head) and case.is_same(
            permuted.ravel(), actual.ravel()
        ):
            text = f"the axes are permuted: the values lie in the order {list(axes)}"
            if len(axes) == _MATRIX_RANK:
                text += "; of a matmul, swap `stationary` and `moving`"
            return Guess(cause=Cause.PERMUTED, text=text)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moves:
    """Distances from where wrong lines lie to where they belong, most frequent first."""

    axis: str
    size: int
    offsets: list[int]
    first: int
    """The first wrong line that was found elsewhere."""
    target: int
    is_source_bad: bool
    """Whether the places where the values belong are wrong too."""
    is_whole: bool
    """Whether nearly all lines are wrong."""


def find_move(case: Case) -> Guess | None:
    """A shift, a swap or a repetition along one axis."""
    for name, expected, actual, bad in _list_views(case):
        moves = _find_moves(name, expected, actual, bad, noise=case.noise)
        if moves is not None:
            return _name(moves)
    return None


def _list_views(case: Case) -> Iterator[tuple[str, Reals, Reals, Mask]]:
    """Each axis in front, its lines flattened; then the rows that a kernel sees."""
    shape = case.expected.shape
    for axis in reversed(range(len(shape))):
        if shape[axis] > 1:
            lines = (shape[axis], -1)
            yield (
                f"along axis {axis}",
                np.moveaxis(case.expected, axis, 0).reshape(lines),
                np.moveaxis(case.actual, axis, 0).reshape(lines),
                np.moveaxis(case.bad, axis, 0).reshape(lines),
            )
    if len(shape) > 2:  # noqa: PLR2004 - two axes are rows and columns already
        rows = (math.prod(shape[:-1]), shape[-1])
        yield (
            "along the rows",
            case.expected.reshape(rows),
            case.actual.reshape(rows),
            case.bad.reshape(rows),
        )


def _join(values: NDArray[Any], width: int) -> NDArray[Any]:
    """Lines of `width` neighbouring ones."""
    if width == 1:
        return values
    windows = np.lib.stride_tricks.sliding_window_view(values, width, axis=0)
    return windows.reshape(windows.shape[0], -1)


def _find_moves(
    name: str, expected: Reals, actual: Reals, bad: Mask, *, noise: float
) -> _Moves | None:
    columns = np.flatnonzero(bad.any(axis=0))
    columns = columns[:: max(1, columns.size // COLUMNS_MAX)][:COLUMNS_MAX]
    width = -(-LINE_MIN // columns.size)
    if width > 1 and expected.shape[0] < 2 * width + 1:
        return None
    wanted = _join(expected[:, columns], width)
    got = _join(actual[:, columns], width)
    is_wrong = _join(bad[:, columns], width)
    # Joined lines over an edge of the wrong part are found nowhere.
    wrong = np.flatnonzero(is_wrong.mean(axis=1) > (_SUPPORT if width == 1 else _INSIDE))
    if wrong.size == 0:
        return None
    count = int(np.clip(BUDGET // wanted.size, LINES_MIN, LINES_MAX))
    picked = wrong[np.linspace(0, wrong.size - 1, min(count, wrong.size)).astype(int)]
    targets = [_find_line(wanted, got[i], noise=noise) for i in picked]
    found = [(int(i), t) for i, t in zip(picked, targets, strict=True) if t is not None and t != i]
    if len(found) < max(1, (_FOUND if width == 1 else _FOUND_JOINED) * picked.size):
        return None
    offsets, counts = np.unique([i - t for i, t in found], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    # A run that is cut by the sample's coarseness may have little support: the leading ones count.
    kept = [int(offsets[k]) for k in order if counts[k] >= _SUPPORT * len(found)]
    if not kept or len(kept) > OFFSETS_MAX or counts.max() == 1 < len(found):
        return None
    touched = np.asarray(is_wrong.any(axis=1))
    return _Moves(
        axis=name,
        size=expected.shape[0],
        offsets=kept,
        first=found[0][0],
        target=found[0][1],
        is_whole=bool(touched.mean() > _FOUND),
        is_source_bad=bool(np.mean([touched[t] for _, t in found]) > 1 - _FOUND),
    )


def _find_line(wanted: Reals, line: Reals, *, noise: float) -> int | None:
    """Where the line belongs; None where it is nowhere, or in several places."""
    if not np.isfinite(line).all():
        return None
    spread = float(np.linalg.norm(line - line.mean()))
    allowed = min(SAME * spread + noise * float(np.linalg.norm(line)), SAME_MAX * spread)
    near = np.flatnonzero(np.abs(wanted[:, 0] - line[0]) < allowed)
    near = near[np.linalg.norm(wanted[near] - line, axis=1) < allowed]
    return int(near[0]) if near.size == 1 else None


def _name(moves: _Moves) -> Guess | None:
    offsets = moves.offsets
    is_ring = moves.is_whole and len(offsets) == 2 and abs(offsets[0] - offsets[1]) == moves.size  # noqa: PLR2004
    is_half = is_ring and offsets[0] == -offsets[1]
    if (len(offsets) == 1 and moves.is_source_bad) or (is_ring and not is_half):
        text = f"the values are shifted by {offsets[0]} {moves.axis}"
        return Guess(cause=Cause.SHIFTED, text=text)
    places = f"index {moves.first} {moves.axis} holds the values of index {moves.target}"
    for tile in tile_sizes():
        if all(o % tile == 0 for o in offsets):
            left, right = moves.first // tile, moves.target // tile
            places = f"tile {left} of {tile} {moves.axis} holds the values of tile {right}"
            break
    if moves.is_source_bad:
        return Guess(cause=Cause.SWAPPED_TILES, text=f"{places} (swapped tiles?)")
    text = (
        f"{places}, which is right itself (a buffer not refilled, or an index that stands still?)"
    )
    return Guess(cause=Cause.STALE, text=text)
