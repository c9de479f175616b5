"""Attention that reads the keys of a cache and those behind them where they lie.

Law: two tensors that are put one behind the other only to be the keys, or the values, of one
attention stay where they are; it loads both into the same tiles.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from nki_agent.builtin.attention_sources import Behind
from nki_agent.builtin.plan import AttentionPlan, RowsPlan, Stage
from nki_agent.builtin.stage_tensors import stage_reads, stage_writes
from nki_agent.builtin.tile_steps import Access, Load, Size, Store
from nki_agent.isa.dtype import DType

Parts = list["_Part"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Some keys of every batch, and the tensor that holds them alone."""

    stage: RowsPlan
    store: Store
    """What puts them beside others."""
    tensor: str
    start: Size
    """Elements before them."""
    size: Size
    """Elements of one batch."""


def join_caches(
    stages: Sequence[Stage], *, kept: Collection[str], dtypes: Mapping[str, DType]
) -> list[Stage]:
    """The stages, where attention reads two tensors that were only put side by side for it."""
    for stage in stages:
        if not isinstance(stage, AttentionPlan) or not _may_read_two(stage):
            continue
        others = {name for s in stages if s is not stage for name in stage_reads(s)}
        if {stage.k.tensor, stage.v.tensor} & {*others, *kept}:
            continue
        keys = _find_parts(stages, stage.k, stage, stage.depth, dtypes)
        values = _find_parts(stages, stage.v, stage, stage.value_depth, dtypes)
        plan = _with_parts(stage, keys, values)
        if plan is not None:
            found = [plan if s is stage else s for s in stages]
            return _without(found, [*keys, *values])
    return list(stages)


def _may_read_two(plan: AttentionPlan) -> bool:
    is_plain = not (plan.is_shared or plan.loads_rows) and plan.slope is None
    return is_plain and plan.k.tensor != plan.v.tensor and not any((*plan.k.offset, *plan.v.offset))


def _find_parts(
    stages: Sequence[Stage],
    whole: Access,
    plan: AttentionPlan,
    width: Size,
    dtypes: Mapping[str, DType],
) -> Parts:
    """What a tensor is put together of, in order; empty where it is not from two others."""
    batch = tuple(a * b for a, b in zip(plan.keys, width, strict=True))
    moving = [n for n, s in zip(plan.batch, whole.strides, strict=False) if any(s)]
    count = tuple(prod(sizes) for sizes in zip(*moving, strict=True)) or (1,) * len(batch)
    found = []
    for stage in stages:
        if whole.tensor not in stage_writes(stage):
            continue
        part = _read_part(stage, whole.tensor, batch, count)
        if part is None or dtypes.get(part.tensor) is not dtypes.get(whole.tensor):
            return []
        found.append(part)
    found.sort(key=lambda part: part.start)
    is_pair = len(found) == len(("first", "behind"))
    if not is_pair or any(found[0].start) or found[0].size != found[1].start:
        return []
    ends = tuple(a + b for a, b in zip(found[1].start, found[1].size, strict=True))
    return found if ends == batch else []


def _read_part(stage: Stage, whole: str, batch: Size, count: Size) -> _Part | None:
    """The part that a stage writes, if another tensor has the same and nothing else."""
    if not isinstance(stage, RowsPlan) or stage.is_step or stage.total or stage.sums:
        return None
    stores = [s for s in stage.levels[-1] if isinstance(s, Store)]
    mine = [s for s in stores if s.access.tensor == whole]
    if len(mine) != 1 or mine[0].copies is not None:
        return None
    store = mine[0]
    same = [s.access for s in stores if s.src == store.src and s is not store and not s.copies]
    same += [
        s.access
        for s in stage.levels[-1]
        if isinstance(s, Load) and s.dst == store.src and s.lookup is None
    ]
    flat = tuple(a * b for a, b in zip(stage.rows, stage.cols, strict=True))
    counts = (*stage.outer, *((flat,) if stage.is_flat else (stage.rows, stage.cols)))
    total = [prod(sizes) for sizes in zip(*counts, strict=True)]
    if any(n % batches for n, batches in zip(total, count, strict=True)):
        return None
    size = tuple(n // batches for n, batches in zip(total, count, strict=True))
    for access in same:
        if not any(access.offset) and _is_alike(store.access, access, counts, batch, size):
            return _Part(
                stage=stage,
                store=store,
                tensor=access.tensor,
                start=store.access.offset,
                size=size,
            )
    return None


def _is_alike(
    store: Access, access: Access, counts: Sequence[Size], batch: Size, size: Size
) -> bool:
    """Whether both walk batches alike, which are so long in one and so long in the other."""
    for strides, others, numbers in zip(store.strides, access.strides, counts, strict=True):
        for step, other, n, whole, own in zip(strides, others, numbers, batch, size, strict=True):
            if n > 1 and other != step // whole * own + step % whole:
                return False
    return True


def _with_parts(plan: AttentionPlan, keys: Parts, values: Parts) -> AttentionPlan | None:
    if not keys or not values:
        return None
    lengths = []
    for parts, width in ((keys, plan.depth), (values, plan.value_depth)):
        if any(part.size[i] % n for part in parts for i, n in enumerate(width)):
            return None
        lengths.append([tuple(a // b for a, b in zip(p.size, width, strict=True)) for p in parts])
    if lengths[0] != lengths[1]:
        return None
    pairs = [*zip(keys, values, lengths[0], strict=True)]
    (k, v), behind = (
        (_resized(plan.k, a, plan.keys, n), _resized(plan.v, b, plan.keys, n)) for a, b, n in pairs
    )
    more = Behind(k=behind[0], v=behind[1], first=lengths[0][0])
    return replace(plan, k=k, v=v, has_runs=False, behind=more)


def _resized(access: Access, part: _Part, keys: Size, own: Size) -> Access:
    """The same walk through batches that are shorter."""
    *outer, row, col = access.strides
    moved = [
        tuple(step // whole * n for step, whole, n in zip(size, keys, own, strict=True))
        for size in outer
    ]
    return replace(access, tensor=part.tensor, strides=(*moved, row, col))


def _without(stages: Sequence[Stage], parts: Parts) -> list[Stage]:
    """The stages without what put the parts side by side."""
    found: list[Stage] = []
    for stage in stages:
        gone = [part.store for part in parts if part.stage is stage]
        if not gone:
            found.append(stage)
            continue
        assert isinstance(stage, RowsPlan)
        last = tuple(s for s in stage.levels[-1] if not any(s is store for store in gone))
        if any(isinstance(step, Store) for step in last):
            found.append(replace(stage, levels=(*stage.levels[:-1], last)))
    return found
