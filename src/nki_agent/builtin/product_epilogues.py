"""Spreads what follows a product over the engines, and keeps some of it in PSUM.

Law: nothing changes where the product itself, or moving its result, takes longer than any engine
needs for what follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nki_agent.builtin.balance import Estimate
from nki_agent.builtin.choices import Choices
from nki_agent.builtin.pacing import TILES_MAX, Pacer
from nki_agent.builtin.strips import count_names
from nki_agent.builtin.tile_steps import Step, Store, step_reads
from nki_agent.isa.dtype import DType

BANKS_OF_PRODUCTS = 4
"""PSUM banks that are left to products and transposes."""

Levels = tuple[tuple[Step, ...], ...]


def pace_epilogue(
    levels: Levels,
    estimate: Estimate,
    choices: Choices,
    *,
    taken: Iterable[str],
    depth: int,
    dtype: DType,
) -> Levels:
    """The steps by loop, those of a tile in the fastest form that is found."""
    steps = [step for level in levels for step in level]
    pacer = Pacer(
        estimate=estimate,
        floor_ns=max(_product_ns(estimate, depth, dtype), _moved_ns(levels[-1], estimate)),
        names=count_names(dict.fromkeys(taken, 1), steps),
        num_tiles=TILES_MAX,
        has_phases=False,
        may_park=choices.parking,
        banks_held=BANKS_OF_PRODUCTS,
    )
    return (*levels[:-1], pacer.pace(levels[-1]).steps)


def _product_ns(estimate: Estimate, depth: int, dtype: DType) -> float:
    """Time of the Tensor Engine for one tile."""
    chip = estimate.chip
    passes = chip.matmul_fp32_passes if dtype is DType.FLOAT32 else 1
    return -(-depth // chip.partitions) * passes * estimate.cols / chip.tensor_clock_ghz


def _moved_ns(steps: Sequence[Step], estimate: Estimate) -> float:
    """Time of DMA for what a tile stores."""
    chip = estimate.chip
    stored = [tile for s in steps if isinstance(s, Store) for tile in step_reads(s) if tile.is_wide]
    num_bytes = sum(tile.dtype.itemsize for tile in stored) * estimate.cols * chip.partitions
    return num_bytes / chip.dma_bytes_per_ns
