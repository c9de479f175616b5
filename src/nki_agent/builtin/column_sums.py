"""Makes sums down the columns in the pass that has their rows in SBUF: no second pass loads them.

Law: the Tensor Engine, which a pass over rows leaves idle, adds up in PSUM, in float32. A tensor
that was stored for its sums alone is not stored at all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from nki_agent.builtin.plan import ColumnSum, FoldPlan, RowsPlan, Stage
from nki_agent.builtin.row_bytes import BUFFERS, bytes_of
from nki_agent.builtin.shortening import with_tiles
from nki_agent.builtin.stage_tensors import stage_reads
from nki_agent.builtin.tile_steps import (
    AddDown,
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

NUM_SUMS_MAX = 2
"""Sums of one pass; more would keep the Tensor Engine busier than DMA."""
NAMES = ("sums", "marks")


def join_sums(stages: Sequence[Stage], *, kept: Collection[str], chip: ChipSpec) -> list[Stage]:
    """The stages with such sums in the passes.

    `kept` are tensors that the kernel returns.
    """
    found = list(stages)
    for fold in stages:
        if not isinstance(fold, FoldPlan) or not _is_plain(fold, chip):
            continue
        for index, plan in enumerate(found[: found.index(fold)]):
            if not isinstance(plan, RowsPlan):
                continue
            others = [s for s in found if s not in (plan, fold)]
            is_read = any(fold.source.tensor in stage_reads(stage) for stage in others)
            joined = _join(plan, fold, is_kept=is_read or fold.source.tensor in kept, chip=chip)
            if joined is None:
                continue
            found[index] = joined
            found.remove(fold)
            break
    return found


def _is_plain(fold: FoldPlan, chip: ChipSpec) -> bool:
    """Whether it adds up whole rows, and one PSUM bank holds a part of each sum's columns."""
    bank = chip.psum_bank_bytes // DType.FLOAT32.itemsize
    blocks = -(-max(fold.n) // bank)
    is_long = min(fold.m) > 1 and blocks * NUM_SUMS_MAX <= chip.partitions
    return fold.function == "add" and not fold.batch and is_long


def _join(plan: RowsPlan, fold: FoldPlan, *, is_kept: bool, chip: ChipSpec) -> RowsPlan | None:
    """The pass with the sum in it; None if it has not the rows, or no room."""
    if not _takes_sums(plan) or (plan.rows, plan.cols) != (fold.m, fold.n):
        return None
    if len(plan.sums) == NUM_SUMS_MAX:
        return None
    step = next((s for s in plan.levels[-1] if _moves(s, fold)), None)
    if not isinstance(step, Load | Store):
        return None
    tile = step.dst if isinstance(step, Load) else step.src
    if tile.kind is not Kind.FULL or tile.cols is not None or not tile.dtype.is_float:
        return None
    sums, marks = _own_tiles(plan, tile.dtype)
    if plan.sums and (plan.sums[0].marks != marks or plan.sums[0].dtype is not fold.out_dtype):
        return None
    added = AddDown(dst=sums, src=tile, marks=marks, number=len(plan.sums))
    place = max(i for i, s in enumerate(plan.levels[-1]) if tile in step_writes(s))
    steps = [*plan.levels[-1][: place + 1], added, *plan.levels[-1][place + 1 :]]
    cuts = [cut + (cut > place) for cut in plan.cuts]
    if isinstance(step, Store) and not is_kept:
        at = steps.index(step)
        steps.pop(at)
        cuts = [cut - (cut > at) for cut in cuts]
    own = ColumnSum(target=fold.target, dtype=fold.out_dtype, sums=sums, marks=marks)
    joined = replace(
        plan,
        levels=(*plan.levels[:-1], tuple(_with_room(steps, plan, chip))),
        cuts=tuple(cuts),
        sums=(*plan.sums, own),
    )
    return joined if bytes_of(joined, buffers=BUFFERS) <= chip.sbuf_usable_partition_bytes else None


def _takes_sums(plan: RowsPlan) -> bool:
    """Whether it is one loop over whole rows, each in its partition."""
    is_whole = plan.col_block is None and plan.rows_each is None and not plan.is_flat
    is_cut = plan.outer or plan.passes or plan.period or plan.total or plan.kept or plan.after
    return is_whole and not (is_cut or plan.is_step or plan.is_apart or plan.has_middle)


def _moves(step: Step, fold: FoldPlan) -> bool:
    """Whether a step has in SBUF just the rows that the sum is made of."""
    match step:
        case Store() | Load(lookup=None):
            return step.access == fold.source
        case _:
            return False


def _own_tiles(plan: RowsPlan, dtype: DType) -> tuple[Tile, Tile]:
    """The sums, and what says which of them a product adds to."""
    if plan.sums:
        return plan.sums[0].sums, replace(plan.sums[0].marks, dtype=dtype)
    taken = {t.name for s in plan.steps for t in (*step_reads(s), *step_writes(s))}
    sums, marks = (name if name not in taken else f"column_{name}" for name in NAMES)
    float32 = DType.FLOAT32
    return (
        Tile(name=sums, kind=Kind.FULL, dtype=float32, level=0, in_psum=True),
        Tile(name=marks, kind=Kind.FULL, dtype=dtype, level=0),
    )


def _with_room(steps: Sequence[Step], plan: RowsPlan, chip: ChipSpec) -> list[Step]:
    """The same steps; tiles that are parked in PSUM lie in SBUF where the sums' bank is theirs."""
    own = {tile for s in steps if isinstance(s, AddDown) for tile in step_reads(s)}
    parked = {t for s in steps for t in step_writes(s) if t.in_psum and t not in own}
    bank = chip.psum_bank_bytes // DType.FLOAT32.itemsize
    # A tile of the turn before may still be there.
    needed = 1 + len(parked) * BUFFERS * -(-max(plan.cols) // bank)
    if needed <= chip.psum_banks:
        return list(steps)
    return [with_tiles(s, {tile: replace(tile, in_psum=False) for tile in parked}) for s in steps]
