"""Choices between two tiles without copies: one of them is overwritten, in the dtype of the result.

Law: a tile is overwritten only if nothing reads it any more. Where all that follows a choice is a
rounding, both sides are rounded as they are made instead: a choice of rounded numbers is the
rounded choice. A choice between what is loaded and a number, the same for a whole row, is one
instruction, which reads who is chosen from PSUM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nki_agent.builtin.shortening import ROUNDED, with_tiles
from nki_agent.builtin.tile_steps import (
    Copy,
    CopyWhere,
    Fill,
    Kind,
    Load,
    Scale,
    Step,
    Tile,
    step_reads,
    step_writes,
)
from nki_agent.isa.dtype import DType

SHORT = (DType.BFLOAT16, DType.FLOAT16)


def choose_in_place(levels: Sequence[Sequence[Step]]) -> list[list[Step]]:
    """The same steps with no copy in front of a choice, and no rounding behind it."""
    found = [list(level) for level in levels]
    for change in (_overwrite, _round_before):
        for number, level in enumerate(found):
            for step in [s for s in level if isinstance(s, Copy) and s.engine is None]:
                new = change(found, level, step)
                if new is not None:
                    found[number] = [s for s in level if s is not step]
                    return choose_in_place(_with(found, new))
    for way in (_select, _overwrite_others):
        for level in found:
            for choice in [s for s in level if isinstance(s, CopyWhere)]:
                fewer = way(found, level, choice)
                if fewer is not None:
                    return choose_in_place(fewer)
    return found


def _with(levels: Sequence[Sequence[Step]], new: Mapping[Tile, Tile]) -> list[list[Step]]:
    return [[with_tiles(step, new) for step in level] for level in levels]


def _overwrite_others(
    levels: Sequence[Sequence[Step]], level: Sequence[Step], choice: CopyWhere
) -> list[list[Step]] | None:
    """What is chosen from takes the number where it is not chosen: nothing is filled first."""
    dst, src = choice.dst, choice.src
    fills = [s for s in level if isinstance(s, Fill) and s.dst == dst]
    if len(fills) != 1 or not isinstance(src, Tile) or choice.is_reversed:
        return None
    steps = [s for each in levels for s in each]
    makers = [s for s in steps if src in step_writes(s)]
    is_own = len(makers) == 1 and makers[0] in level and isinstance(makers[0], ROUNDED)
    is_read = any(src in step_reads(s) for s in steps if s is not choice)
    is_whole = sum(dst in step_writes(s) for s in steps) == len((fills[0], choice))
    if not is_own or is_read or not is_whole or replace(src, name=dst.name) != dst:
        return None
    others = replace(choice, src=fills[0].value, is_reversed=True)
    left = [others if s is choice else s for s in level if s is not fills[0]]
    return _with([left if each is level else each for each in levels], {src: dst})


def _overwrite(
    levels: Sequence[Sequence[Step]], level: Sequence[Step], copy: Copy
) -> Mapping[Tile, Tile] | None:
    """A copy that a choice overwrites takes the place of what it copies, if that ends there."""
    dst, src = copy.dst, copy.src
    if not any(isinstance(s, CopyWhere) and s.dst == dst for s in level):
        return None
    after = level[level.index(copy) + 1 :]
    makers = [s for s in level if src in step_writes(s)]
    if len(makers) != 1 or not isinstance(makers[0], ROUNDED):
        return None
    elsewhere = [s for steps in levels if steps is not level for s in steps]
    if any(src in step_reads(s) for s in (*after, *elsewhere)):
        return None
    if replace(src, name=dst.name) != dst:
        return None
    return {dst: src}


def _round_before(
    levels: Sequence[Sequence[Step]], level: Sequence[Step], copy: Copy
) -> Mapping[Tile, Tile] | None:
    """The tiles of a choice of which only a rounded copy is read, rounded as they are made."""
    steps = [s for each in levels for s in each]
    choices = [s for s in level if isinstance(s, CopyWhere) and s.dst == copy.src]
    is_short = copy.dst.dtype in SHORT and copy.src.dtype is DType.FLOAT32
    if not choices or not is_short or copy.src.in_psum or copy.dst.kind is not copy.src.kind:
        return None
    sides = [copy.src, *(s.src for s in choices if isinstance(s.src, Tile))]
    own = [copy, *choices]
    for side in sides:
        makers = [s for s in steps if side in step_writes(s) and s not in own]
        readers = [s for s in steps if side in step_reads(s) and s not in own]
        if readers or len(makers) != 1 or not isinstance(makers[0], ROUNDED):
            return None
        if side in step_reads(makers[0]) or side.dtype is not DType.FLOAT32 or side.in_psum:
            return None
    new = {side: replace(side, dtype=copy.dst.dtype) for side in sides}
    return new | {copy.src: copy.dst}


def _select(
    levels: list[list[Step]], level: list[Step], choice: CopyWhere
) -> list[list[Step]] | None:
    """The same steps where a fill, perhaps a copy, and a choice between them are one selection."""
    mask, data = choice.predicate, choice.src
    if mask.kind is not Kind.ROW or not isinstance(data, Tile) or choice.dst.kind is not Kind.FULL:
        return None
    steps = [s for each in levels for s in each]
    fills = [s for s in level if isinstance(s, Fill) and s.dst == choice.dst]
    writers = [s for s in steps if choice.dst in step_writes(s)]
    makers = [s for s in steps if mask in step_writes(s)]
    mask_readers = [s for s in steps if mask in step_reads(s)]
    if len(fills) != 1 or len(writers) != len((fills[0], choice)) or mask_readers != [choice]:
        return None
    if len(makers) != 1 or not isinstance(makers[0], Scale):
        return None
    gone: list[Step] = [fills[0]]
    copies = [s for s in level if isinstance(s, Copy) and s.dst == data]
    if len(copies) == 1 and [s for s in steps if data in step_reads(s)] == [choice]:
        gone.append(copies[0])
        data = copies[0].src
    loads = [s for s in steps if data in step_writes(s)]
    is_loaded = len(loads) == 1 and isinstance(loads[0], Load)
    if not is_loaded or data.kind is not Kind.FULL or not data.dtype.is_float:
        return None
    selection = replace(choice, src=data, otherwise=fills[0].value)
    level[:] = [selection if s is choice else s for s in level if s not in gone]
    return _with(levels, {mask: replace(mask, in_psum=True)})
