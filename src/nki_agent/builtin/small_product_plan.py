"""Many small products, one for each batch, as data."""

from __future__ import annotations

from dataclasses import dataclass

from nki_agent.builtin.tile_steps import Access, Size, Step, Tile
from nki_agent.isa.dtype import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallProductPlan:
    """x[M, K] @ w[K, N] for each batch, many of the innermost batches at a time.

    `levels` are the steps in front of all loops, and those of a tile that holds several results.
    """

    title: str
    batch: tuple[Size, ...]
    x: Access
    """Over batch loops, M, K."""
    w: Access
    """Over batch loops, K, N."""
    dtype: DType
    m: Size
    k: Size
    n: Size
    x_each: int
    """Rows of x that share a partition while they are loaded to be turned."""
    pitch: int
    """Partitions from the results of one tile to those of the next, each of which leaves through
    DMA engines of its own; 0 where all lie on the first."""
    product: Tile
    levels: tuple[tuple[Step, ...], tuple[Step, ...]]

    @property
    def is_w_turned(self) -> bool:
        """Whether w lies as [N, K]."""
        return set(self.w.strides[-2]) == {1}

    @property
    def is_square(self) -> bool:
        """Whether w is x turned, so that one load serves both."""
        *batch, rows, cols = self.w.strides
        same = (self.x.tensor, self.x.offset) == (self.w.tensor, self.w.offset)
        return same and (*batch, cols, rows) == self.x.strides
