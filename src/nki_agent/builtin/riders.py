"""Joins a copy of columns to the pass that makes those beside them: rows are moved whole.

Law: the copy takes columns right beside those which the pass reads, to right beside those which it
makes. Nothing is computed twice, and no row is moved in two parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nki_agent.builtin.choices import Choices
from nki_agent.builtin.plan import RowsPlan, Stage
from nki_agent.builtin.row_bytes import BUFFERS, bytes_of
from nki_agent.builtin.shortening import with_tiles
from nki_agent.builtin.tile_steps import (
    Access,
    Copy,
    Cut,
    Load,
    Size,
    Step,
    Store,
    Tile,
    step_reads,
    step_writes,
)
from nki_agent.chip.spec import ChipSpec

Ride = tuple[Load, Store]


def join_riders(stages: Sequence[Stage], *, chip: ChipSpec, choices: Choices) -> list[Stage]:
    """The stages, where such copies are parts of the passes beside them."""
    found = list(stages)
    room = int(chip.sbuf_usable_partition_bytes * choices.sbuf_share)
    for copy in stages:
        ride = _only_moves(copy)
        if ride is None:
            continue
        for index, stage in enumerate(found):
            if stage is copy or not isinstance(stage, RowsPlan):
                continue
            assert isinstance(copy, RowsPlan)
            joined = _join(stage, copy, ride)
            if joined is not None and bytes_of(joined, buffers=BUFFERS) <= room:
                found[index] = joined
                found.remove(copy)
                break
    return found


def _only_moves(stage: Stage) -> Ride | None:
    """The load and the store of a stage that does nothing else."""
    if not isinstance(stage, RowsPlan) or stage.is_step or stage.total or stage.period:
        return None
    match stage.steps:
        case (Load(lookup=None) as load, Store() as store) if load.dst == store.src:
            return load, store
        case _:
            return None


def _join(plan: RowsPlan, copy: RowsPlan, ride: Ride) -> RowsPlan | None:
    """The pass with the copy in it; None if their rows or columns do not meet."""
    if plan.is_flat or plan.cuts or plan.is_apart or plan.has_middle or plan.col_block is not None:
        return None
    if plan.is_step or plan.total or plan.period or plan.passes or copy.is_flat:
        return None
    load, store = ride
    cuts = [step for step in plan.levels[-1] if isinstance(step, Cut)]
    rows = {step.src for step in cuts}
    loaded = _beside(plan, copy, load.access, [s for s in plan.levels[-1] if isinstance(s, Load)])
    stored = _beside(plan, copy, store.access, [s for s in plan.levels[-1] if isinstance(s, Store)])
    if loaded is None or stored is None or not {loaded.tile, stored.tile} <= rows:
        return None
    if loaded.tile == stored.tile or loaded.tile.dtype is not stored.tile.dtype:
        return None
    return replace(plan, levels=(*plan.levels[:-1], _with_copy(plan, copy, loaded, stored)))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows in SBUF that columns are added to."""

    step: Load | Store
    tile: Tile
    wider: Tile
    access: Access
    shift: Size
    """How many columns come in front."""
    start: Size
    """Where the added columns begin."""


def _beside(
    plan: RowsPlan, copy: RowsPlan, access: Access, steps: Sequence[Load | Store]
) -> _Rows | None:
    """The rows of the pass that the columns of the copy are beside."""
    strides = _strides_in(plan, copy, access)
    for step in steps:
        tile = step.dst if isinstance(step, Load) else step.src
        own = step.access
        if own.tensor != access.tensor or own.strides != strides or tile.cols is None:
            continue
        behind = tuple(a + n for a, n in zip(own.offset, tile.cols, strict=True))
        before = tuple(a + n for a, n in zip(access.offset, copy.cols, strict=True))
        none = (0,) * len(tile.cols)
        width = tuple(a + b for a, b in zip(tile.cols, copy.cols, strict=True))
        wider = replace(tile, cols=width)
        if access.offset == behind:
            return _Rows(step, tile, wider, own, none, tile.cols)
        if before == own.offset:
            return _Rows(step, tile, wider, replace(own, offset=access.offset), copy.cols, none)
    return None


def _strides_in(plan: RowsPlan, copy: RowsPlan, access: Access) -> tuple[Size, ...] | None:
    """The strides of what the copy moves along the loops and rows of the pass."""
    *outer, row, col = access.strides
    if (copy.outer, copy.rows) == (plan.outer, plan.rows):
        return (*outer, row, col)
    whole = plan.rows
    paces = [row]
    for size in reversed(plan.outer):
        paces.insert(0, tuple(a * b for a, b in zip(row, whole, strict=True)))
        whole = tuple(a * b for a, b in zip(size, whole, strict=True))
    return (*paces, col) if not outer and copy.rows == whole else None


def _with_copy(plan: RowsPlan, copy: RowsPlan, loaded: _Rows, stored: _Rows) -> tuple[Step, ...]:
    """The innermost steps: wider rows, and a copy between them before they are stored."""
    taken = {t.name for s in plan.steps for t in (*step_reads(s), *step_writes(s))}
    source = _rest_of(loaded, copy.cols, taken)
    target = _rest_of(stored, copy.cols, taken)
    new = {loaded.tile: loaded.wider, stored.tile: stored.wider}
    shifts = {loaded.wider: loaded.shift, stored.wider: stored.shift}
    steps: list[Step] = [Cut(dst=target, src=stored.wider, start=stored.start, step=1)]
    for old in plan.levels[-1]:
        step = with_tiles(old, new)
        if isinstance(step, Cut) and step.src in shifts:
            moved = zip(step.start, shifts[step.src], strict=True)
            step = replace(step, start=tuple(a + b for a, b in moved))
        if old == loaded.step:
            steps.append(Load(dst=loaded.wider, access=loaded.access))
            steps.append(Cut(dst=source, src=loaded.wider, start=loaded.start, step=1))
        elif old == stored.step:
            steps.append(Copy(dst=target, src=source))
            steps.append(Store(access=stored.access, src=stored.wider))
        else:
            steps.append(step)
    return tuple(steps)


def _rest_of(rows: _Rows, cols: Size, taken: set[str]) -> Tile:
    """A name for the columns that are only moved."""
    name = base = f"{rows.access.tensor}_rest"
    number = 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    taken.add(name)
    return replace(rows.tile, name=name, cols=cols)
