"""Joins two products that share an operand, where the second goes on with what the first made.

Law: both have one shape, and the tiles of one meet those of the other in SBUF: what the first made
is not stored, and the shared operand is loaded and turned once. Nobody else reads the first. Of
two that share x, the first may have one column: then it is a number for each row of the second.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from nki_agent.builtin.choices import Choices
from nki_agent.builtin.plan import MatmulPlan, Stage, Twin
from nki_agent.builtin.shortening import with_tiles
from nki_agent.builtin.stage_tensors import stage_reads
from nki_agent.builtin.tile_steps import (
    Access,
    Copy,
    Invert,
    Kind,
    Load,
    Step,
    Store,
    Tile,
    step_reads,
    step_writes,
)
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType


def join_twins(
    stages: Sequence[Stage], *, kept: Collection[str], chip: ChipSpec, choices: Choices
) -> list[Stage]:
    """The stages with such products in one.

    `kept` are tensors that the kernel returns.
    """
    found = list(stages)
    for first in stages:
        made = _only_result(first)
        if not isinstance(first, MatmulPlan) or made is None or made.access.tensor in kept:
            continue
        readers = [s for s in found if made.access.tensor in stage_reads(s)]
        if len(readers) != 1 or not isinstance(second := readers[0], MatmulPlan):
            continue
        joined = _join(first, second, made)
        if joined is not None and _fits(joined, chip, choices):
            found[found.index(second)] = joined
            found.remove(first)
    return found


def _only_result(stage: Stage) -> Store | None:
    """The one store of a product."""
    if not isinstance(stage, MatmulPlan):
        return None
    stores = [s for level in stage.levels for s in level if isinstance(s, Store)]
    return stores[0] if len(stores) == 1 and stores[0] in stage.levels[-1] else None


def _join(first: MatmulPlan, second: MatmulPlan, made: Store) -> MatmulPlan | None:
    is_column = _is_column(first, second)
    if _form(first) != _form(second) or first.twin or second.twin:
        return None
    if not is_column and (first.n != second.n or _order(first.w) != _order(second.w)):
        return None
    if any(plan.tail or plan.is_step or not plan.keep_w for plan in (first, second)):
        return None
    shares_x, shares_w = first.x == second.x, first.w == second.w
    if shares_x == shares_w:
        return None
    loads = [
        s
        for level in second.levels
        for s in level
        if isinstance(s, Load) and s.access.tensor == made.access.tensor
    ]
    if len(loads) != 1 or loads[0] not in second.levels[-1]:
        return None
    if _place(loads[0].access, is_column=is_column) != _place(made.access, is_column=is_column):
        return None
    if made.access.tensor in (second.x.tensor, second.w.tensor):
        return None
    if loads[0].dst.dtype is not made.src.dtype or made.src.in_psum:
        return None
    new = _renamed(first, second, kind=Kind.ROW if is_column else None)
    leaving = _only_copy(first, second, loads[0]) if is_column else None
    given = new[made.src if leaving is None else first.product]
    levels = [
        [with_tiles(step, new) for step in own if step not in (made, leaving)]
        + [with_tiles(step, {loads[0].dst: given}) for step in rest if step != loads[0]]
        for own, rest in zip(first.levels, second.levels, strict=True)
    ]
    return replace(
        second,
        title=f"{first.title} and {second.title}",
        levels=tuple(tuple(steps) for steps in levels),
        is_mixed=first.is_mixed or second.is_mixed,
        twin=Twin(
            x=None if shares_x else first.x,
            w=None if shares_w else first.w,
            product=new[first.product],
            is_column=is_column,
        ),
    )


def _only_copy(first: MatmulPlan, second: MatmulPlan, load: Load) -> Step | None:
    """What takes a column out of PSUM as it is, where its readers as well find it there."""
    match [step for level in first.levels for step in level]:
        case [Copy(dst=dst, src=first.product) as leaving, Store()] if dst.dtype is DType.FLOAT32:
            steps = [step for level in second.levels for step in level]
            readers = [step for step in steps if load.dst in step_reads(step)]
            return leaving if all(isinstance(step, Invert) for step in readers) else None
        case _:
            return None


def _is_column(first: MatmulPlan, second: MatmulPlan) -> bool:
    """Whether the first makes one number for each row of the second, of the rows that they share.

    Both w are loaded alike, so w must lie as [K, N]: of one column nothing else can be said.
    """
    if set(first.n) != {1} or set(second.n) == {1} or first.x != second.x:
        return False
    is_plain = _order(second.w) == (False, True) and _order(first.w)[-1]
    return is_plain and all(tile.kind in (Kind.FULL, Kind.ROW) for tile in _tiles(first))


def _place(access: Access, *, is_column: bool) -> Access:
    """Where a result lies; along one column there are no steps."""
    return replace(access, strides=access.strides[:-1]) if is_column else access


def _form(plan: MatmulPlan) -> tuple[object, ...]:
    """What two products must have in common."""
    sizes = (plan.batch, plan.m, plan.k, plan.row_group, plan.x_each, plan.w_each)
    kinds = (plan.dtype, plan.is_split, plan.has_double_rows, plan.depth_group, len(plan.levels))
    return (*sizes, *kinds, _order(plan.x), _moves(plan.w))


def _order(access: Access) -> tuple[bool, ...]:
    """Which of the matrix axes have neighbours side by side."""
    return tuple(set(stride) == {1} for stride in access.strides[-2:])


def _moves(access: Access) -> tuple[bool, ...]:
    """The batch loops along which an operand changes."""
    return tuple(any(stride) for stride in access.strides[:-2])


def _renamed(first: MatmulPlan, second: MatmulPlan, *, kind: Kind | None) -> dict[Tile, Tile]:
    """The tiles of the first product by names that the second does not have, and of one kind."""
    taken = {t.name for t in _tiles(second)}
    new: dict[Tile, Tile] = {}
    for tile in _tiles(first):
        name, number = tile.name, 2
        while name in taken:
            name, number = f"{tile.name}_{number}", number + 1
        taken.add(name)
        new[tile] = replace(tile, name=name, kind=kind or tile.kind)
    return new


def _tiles(plan: MatmulPlan) -> list[Tile]:
    steps: list[Step] = [step for level in plan.levels for step in level]
    found = (t for step in steps for t in (*step_writes(step), *step_reads(step)))
    return list(dict.fromkeys((plan.product, *found)))


def _fits(plan: MatmulPlan, chip: ChipSpec, choices: Choices) -> bool:
    """Whether SBUF holds both operands that differ beside the one that is shared."""
    assert plan.twin is not None
    room = int(chip.sbuf_usable_partition_bytes * choices.sbuf_share)
    depth, cols = max(plan.k), max(plan.n)
    block = -(-depth // chip.partitions) * plan.dtype.itemsize
    bank = min(cols, chip.psum_bank_bytes // DType.FLOAT32.itemsize)
    tiles = [t for t in _tiles(plan) if not t.in_psum]
    working = sum(DType.FLOAT32.itemsize * (bank if t.is_wide else 1) for t in tiles)
    waiting = 2 * depth * plan.dtype.itemsize
    all_w = block * cols * (1 + (plan.twin.w is not None))
    all_x = 2 * block * plan.row_group * (1 + (plan.twin.x is not None))
    return all_w + all_x + 2 * (working + waiting) <= room
