"""Two products with elementwise steps between them, as data: f(q k^T) v."""

from __future__ import annotations

from dataclasses import dataclass

from nki_agent.builtin.tile_steps import Access, Size, Step, Tile
from nki_agent.isa.dtype import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainPlan:
    """One block of keys by one of queries at a time; `levels` are the steps of f.

    The last of them belong to one block, keys on the partitions; they leave it in `weights`.
    """

    title: str
    batch: tuple[Size, ...]
    q: Access
    """Over batch loops, depth, queries."""
    k: Access
    """Over batch loops, keys, depth."""
    v: Access
    out: Access
    dtype: DType
    """Of queries and keys."""
    value_dtype: DType
    """Of values and of the weights that multiply them."""
    out_dtype: DType
    queries: Size
    keys: Size
    depth: Size
    value_depth: Size
    rows_each: int
    """Queries or keys that share a partition while they are loaded to be turned."""
    product: Tile
    weights: Tile
    is_shared: bool
    """Whether heads share the first product: it is made once for all of them, and kept in SBUF."""
    columns: tuple[Step, ...]
    """Steps on one number for each key, made for all keys at once."""
    levels: tuple[tuple[Step, ...], ...]
    cuts: tuple[int, ...]
    """Where the steps of a block are cut in parts, each a block behind the one before."""
    ahead: Size | None
    """How far behind its own position a query sees keys; None where it sees all."""
