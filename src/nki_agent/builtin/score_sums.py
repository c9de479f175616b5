"""Scores that are the sum of two products, as one product of greater depth.

Law: a product that is only added to the scores of one attention is summed with them in PSUM: it is
queries times keys as they are, of which that attention loads more.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from nki_agent.builtin.attention import on_scalar
from nki_agent.builtin.attention_sources import MoreDepth
from nki_agent.builtin.plan import AttentionPlan, MatmulPlan, Stage
from nki_agent.builtin.print_products import swap_axes
from nki_agent.builtin.shortening import with_tiles
from nki_agent.builtin.stage_tensors import stage_reads
from nki_agent.builtin.tile_steps import Access, Activate, Combine, Copy, Kind, Load, Step, Store


def join_scores(stages: Sequence[Stage], *, kept: Collection[str]) -> list[Stage]:
    """The stages, where attention makes both products that its scores are the sum of."""
    for stage in stages:
        if not isinstance(stage, AttentionPlan):
            continue
        for product in stages:
            if not isinstance(product, MatmulPlan) or not _is_plain(product):
                continue
            access = _stored(product)
            others = {name for s in stages if s is not stage for name in stage_reads(s)}
            joined = _join(stage, product, access)
            if joined is not None and access.tensor not in {*others, *kept}:
                return [joined if s is stage else s for s in stages if s is not product]
    return list(stages)


def _is_plain(product: MatmulPlan) -> bool:
    """Whether a product is stored as it is."""
    is_special = product.is_step or product.tail or product.twin or product.is_split
    is_special = is_special or product.is_mixed or product.is_mirrored or any(product.levels[:-1])
    match product.levels[-1]:
        case (Copy(src=src, dst=dst), Store(src=stored)):
            is_copy = src == product.product and dst == stored
        case (Activate(function="copy", scale=None, bias=None) as step, Store(src=stored)):
            is_copy = step.data == product.product and step.dst == stored
        case _:
            is_copy = False
    return is_copy and not is_special


def _stored(product: MatmulPlan) -> Access:
    return next(step.access for step in product.levels[-1] if isinstance(step, Store))


def _join(plan: AttentionPlan, product: MatmulPlan, access: Access) -> AttentionPlan | None:
    """The attention with the product in it; None if it is not added first of all."""
    is_plain = not (plan.is_turned or plan.loads_rows or plan.mask or plan.slope or plan.more)
    same = (product.batch, product.m, product.n, product.dtype)
    k = swap_axes(product.w)
    is_alike = same == (plan.batch, plan.queries, plan.keys, plan.dtype)
    has_rows = all(set(a.strides[-1]) == {1} for a in (product.x, k))
    if not (is_plain and is_alike and has_rows):
        return None
    match plan.levels[-1]:
        case (Load(lookup=None) as load, Combine(op="add") as total, *rest) if (
            load.access == access
            and load.dst.kind is Kind.FULL
            and {total.first, total.second} == {plan.product, load.dst}
        ):
            pass
        case _:
            return None
    steps: list[Step] = [on_scalar(with_tiles(s, {total.dst: plan.product})) for s in rest]
    more = MoreDepth(
        q=product.x, k=product.w, depth=product.k, q_each=product.x_each, k_each=product.w_each
    )
    return replace(plan, levels=(*plan.levels[:-1], tuple(steps)), more=more)
