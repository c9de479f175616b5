"""Finds products whose left matrix is zero behind a diagonal: what meets the zeros is left out.

Law: a stage before it writes zeros there by position, as its last step, and nothing else writes the
matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nki_agent.builtin.attention import bound_of
from nki_agent.builtin.plan import MatmulPlan, RowsPlan, Stage
from nki_agent.builtin.print_products import is_x_ready
from nki_agent.builtin.stage_tensors import stage_writes
from nki_agent.builtin.tile_steps import AffineSelect, Size, Store


def skip_zeros(stages: Sequence[Stage]) -> list[Stage]:
    """The stages, where such products stop at the diagonal."""
    return [_stopped(s, stages) if isinstance(s, MatmulPlan) else s for s in stages]


def _stopped(product: MatmulPlan, stages: Sequence[Stage]) -> MatmulPlan:
    makers = [stage for stage in stages if product.x.tensor in stage_writes(stage)]
    is_plain = not (product.twin or product.depth_group or product.has_double_rows)
    if len(makers) != 1 or not is_plain or product.is_step or is_x_ready(product):
        return product
    last = _last_column(makers[0], product) if isinstance(makers[0], RowsPlan) else None
    return product if last is None else replace(product, last_column=last)


def _last_column(maker: RowsPlan, product: MatmulPlan) -> Size | None:
    """The last column that is not zero, minus the row; None if there is no such diagonal."""
    stores = [s for s in maker.steps if isinstance(s, Store)]
    made = [s for s in stores if s.access.tensor == product.x.tensor]
    if len(made) != 1 or (maker.rows, maker.cols) != (product.m, product.k):
        return None
    if made[0].access.strides[-2:] != product.x.strides[-2:]:
        return None
    chosen = [s for s in maker.steps if isinstance(s, AffineSelect) and s.dst == made[0].src]
    if len(chosen) != 1 or set(chosen[0].value) != {0.0}:
        return None
    is_last, bound = bound_of(chosen[0]) or (False, ())
    return bound if is_last and min(bound) >= 0 else None
