"""Which tensors in HBM a stage reads and writes."""

from __future__ import annotations

from collections.abc import Sequence

from nki_agent.builtin.chain_plan import ChainPlan
from nki_agent.builtin.plan import (
    AttentionPlan,
    BagPlan,
    ByIndexPlan,
    ConvolutionPlan,
    FoldPlan,
    MatmulPlan,
    Matrix,
    PickPlan,
    PoolPlan,
    RankPlan,
    RowsPlan,
    RunningPlan,
    Stage,
    TransposePlan,
)
from nki_agent.builtin.reorder_plan import ReorderPlan
from nki_agent.builtin.resident_plan import (
    DecayedSumPlan,
    DeltaRulePlan,
    ResidentPlan,
    ResidentRowsPlan,
    accesses_read,
)
from nki_agent.builtin.small_attention_plan import SmallAttentionPlan
from nki_agent.builtin.small_product_plan import SmallProductPlan
from nki_agent.builtin.tile_steps import Load, Step, Store


def stage_reads(stage: Stage) -> list[str]:
    """In order of first use, the largest first."""
    found: list[str]
    match stage:
        case RowsPlan():
            loads = [s for s in stage.steps if isinstance(s, Load)]
            found = [s.access.tensor for s in loads if s.dst.is_wide and any(s.access.strides[0])]
            found += [s.access.tensor for s in loads]
        case MatmulPlan() | SmallProductPlan():
            found = [stage.x.tensor, stage.w.tensor, *_loaded(stage.levels)]
            found += [*_read_by_tail(stage), *_read_by_twin(stage)]
        case TransposePlan() | FoldPlan():
            found = [stage.source.tensor]
        case ReorderPlan():
            found = [stage.source]
        case ConvolutionPlan():
            found = [stage.x, stage.weight, *_loaded(stage.levels)]
        case PoolPlan():
            found = [stage.x]
        case AttentionPlan() | ChainPlan():
            found = [
                stage.q.tensor,
                stage.k.tensor,
                stage.v.tensor,
                *_loaded((*stage.levels, *_columns(stage))),
                *_read_beside(stage),
            ]
        case SmallAttentionPlan():
            found = [stage.q.tensor, stage.k.tensor, stage.v.tensor, *_loaded([stage.shared])]
        case ResidentPlan() | ResidentRowsPlan() | DeltaRulePlan() | DecayedSumPlan():
            found = [access.tensor for access in accesses_read(stage)]
        case _:
            found = [matrix.tensor for matrix in _read_by_index(stage)]
    return list(dict.fromkeys(found))


def _read_by_tail(stage: MatmulPlan | SmallProductPlan) -> list[str]:
    if not isinstance(stage, MatmulPlan) or stage.tail is None:
        return []
    made = stage.tail.whole.access.tensor
    return [name for name in _loaded(stage.tail.levels) if name != made]


def _read_by_twin(stage: MatmulPlan | SmallProductPlan) -> list[str]:
    if not isinstance(stage, MatmulPlan) or stage.twin is None:
        return []
    return [side.tensor for side in (stage.twin.x, stage.twin.w) if side is not None]


def _columns(stage: AttentionPlan | ChainPlan) -> Sequence[Sequence[Step]]:
    return (stage.columns,) if isinstance(stage, ChainPlan) else ()


def _read_beside(stage: AttentionPlan | ChainPlan) -> list[str]:
    if not isinstance(stage, AttentionPlan):
        return []
    pages = [] if stage.pages is None else [stage.pages.index]
    behind = [] if stage.behind is None else [stage.behind.k.tensor, stage.behind.v.tensor]
    more = [] if stage.more is None else [stage.more.q.tensor, stage.more.k.tensor]
    return pages + behind + more


def _loaded(levels: Sequence[Sequence[Step]]) -> list[str]:
    return [s.access.tensor for level in levels for s in level if isinstance(s, Load)]


def _read_by_index(stage: ByIndexPlan) -> list[Matrix]:
    match stage:
        case PickPlan():
            operands = (stage.table, stage.index, stage.rows, stage.taken, stage.weight)
            return [m for m in operands if isinstance(m, Matrix)]
        case RankPlan() | RunningPlan():
            return [stage.source]
        case BagPlan():
            return [stage.table, stage.index, stage.weight]


def stage_writes(stage: Stage) -> list[str]:
    """In order of first use."""
    found: list[str]
    match stage:
        case RowsPlan():
            found = [s.access.tensor for s in stage.steps if isinstance(s, Store)]
            found += [] if stage.total is None else [stage.total.target.tensor]
            found += [own.target.tensor for own in stage.sums]
        case MatmulPlan() | SmallProductPlan() | ConvolutionPlan() | PoolPlan():
            tail = stage.tail if isinstance(stage, MatmulPlan) else None
            levels = [*stage.levels, *(() if tail is None else tail.levels)]
            steps = [step for level in levels for step in level]
            pool = stage.pool if isinstance(stage, ConvolutionPlan) else None
            steps += [] if pool is None else pool.steps
            found = [s.access.tensor for s in steps if isinstance(s, Store)]
        case ReorderPlan():
            found = [stage.target]
        case TransposePlan() | FoldPlan():
            found = [stage.target.tensor]
        case ChainPlan() | SmallAttentionPlan():
            found = [stage.out.tensor]
        case RankPlan():
            found = [m.tensor for m in (stage.values, stage.places) if m is not None]
        case ResidentPlan() | ResidentRowsPlan():
            found = [r.access.tensor for r in stage.results if r.access is not None]
        case _:
            found = [stage.out.tensor]
    return list(dict.fromkeys(found))
