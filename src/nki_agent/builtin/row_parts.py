"""Parts of rows that one stage reads or writes apart: halves, every second column, reversed rows.

Law: such parts are cut out of whole rows in SBUF, so that transfers stay long runs of memory. Only
elements between the first and the last that the stage uses are moved, and a row is written whole
only where the stage writes each of its elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nki_agent.builtin.pending import Tiles
from nki_agent.builtin.tile_steps import Access, Cut, Load, Size, Tile, step_writes

SHORT_RUN_BYTES = 512
"""Runs of memory below it waste the time of the DMA engines."""
USED_SHARE = 0.5
"""Part of a row that must be used to load all of it."""
UNCUT = 1


@dataclass(frozen=True, slots=True)
class RowPart:
    """Columns `start`, `start + step`, ... of the rows of `row`, which have `width` of them."""

    row: Access
    width: Size
    start: Size
    step: int


def find_row_parts(
    accesses: Iterable[Access], cols: Size, *, itemsize: int, whole: bool
) -> dict[Access, RowPart]:
    """The accesses that are better cut out of whole rows; `whole`: of which nothing is left out."""
    groups: dict[object, list[Access]] = {}
    for access in dict.fromkeys(accesses):
        if any(access.strides[-1]) and len(set(access.strides[-1])) == 1:
            groups.setdefault((access.tensor, access.strides[:-1]), []).append(access)
    found: dict[Access, RowPart] = {}
    for group in groups.values():
        if _is_useful(group, cols, itemsize):
            found |= _cut(group, cols, share=1.0 if whole else USED_SHARE)
    return found


def _is_useful(group: Sequence[Access], cols: Size, itemsize: int) -> bool:
    is_short = max(cols) * itemsize < SHORT_RUN_BYTES and len(group) > 1
    return is_short or any(access.strides[-1][0] != UNCUT for access in group)


def _cut(group: Sequence[Access], cols: Size, *, share: float) -> dict[Access, RowPart]:
    lows, widths = [], []
    for index, count in enumerate(cols):
        columns = [_columns(access, index, count) for access in group]
        low, high = min(c[0] for c in columns), max(c[-1] for c in columns)
        used = len({n for c in columns for n in c})
        if used < share * (high - low + 1):
            return {}
        lows.append(low)
        widths.append(high - low + 1)
    first = group[0]
    ones = (1,) * len(cols)
    row = Access(tensor=first.tensor, strides=(*first.strides[:-1], ones), offset=tuple(lows))
    return {
        access: RowPart(
            row=row,
            width=tuple(widths),
            start=tuple(o - low for o, low in zip(access.offset, lows, strict=True)),
            step=access.strides[-1][0],
        )
        for access in group
    }


def _columns(access: Access, index: int, count: int) -> range:
    """The elements of the first row, in rising order."""
    start, step = access.offset[index], access.strides[-1][index]
    columns = range(start, start + step * count, step)
    return columns if step > 0 else columns[::-1]


def is_scattered(lowering: Tiles, tile: Tile, part: RowPart | None) -> bool:
    """Whether a transfer would move one element at a time, which an engine must do instead."""
    made = [step for step in lowering.levels[tile.level] if tile in step_writes(step)]
    if any(isinstance(step, Cut) for step in made):
        return True
    loaded = any(isinstance(step, Load) for step in made)
    return loaded and part is not None and part.step != 1
