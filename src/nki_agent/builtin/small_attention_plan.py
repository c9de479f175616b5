"""Attention of many small batches, as data."""

from __future__ import annotations

from dataclasses import dataclass

from nki_agent.builtin.tile_steps import Access, Load, Size, Step, Tile
from nki_agent.isa.dtype import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallAttentionPlan:
    """softmax(f(q k^T)) v for each batch, many of one batch axis at a time.

    Accesses are over the outer loops, the batches of a tile, and the two matrix axes. `steps` are
    those of f; `shared` are the operands of f that all batches of a tile share.
    """

    title: str
    outer: tuple[Size, ...]
    batches: Size
    q: Access
    k: Access
    v: Access
    out: Access
    dtype: DType
    value_dtype: DType
    out_dtype: DType
    queries: Size
    keys: Size
    depth: Size
    value_depth: Size
    width: Size | None
    """Elements of a row with queries, keys and values of all outer loops; None if none has."""
    product: Tile
    scores: Tile
    shared: tuple[Load, ...]
    steps: tuple[Step, ...]
