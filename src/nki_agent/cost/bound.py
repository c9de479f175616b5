"""The least time that any kernel needs for a task on a chip.

Law: no correct kernel's Timeline is shorter; one that is shows an error of the Work or of the
model. Each resource is taken alone, with all of it busy all the time: HBM bytes at the effective
DMA rate, matmuls on the full array, elements past the element-wise engines in their fastest mode.
Not covered: start-up, dependencies, memory that does not fit; tricks that trade products for sums
(Strassen, Winograd), and operands of 8 bits where the task's are longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType

SPLIT_PASSES = 3
"""Passes of 16-bit operands that make a product of float32 ones, each a sum of two 16-bit numbers:
what they leave out, the product of the two lower parts, is under 2**-16 of it.
"""
FP8 = (DType.FLOAT8_E4M3, DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2)
"""Formats of which a partition holds several rows of the array."""
SHORT_FLOATS = (DType.BFLOAT16, DType.FLOAT16)
"""Formats that the faster modes of the element-wise engines take."""


class Roof(StrEnum):
    """What a bound comes from."""

    BYTES = "bytes"
    MATMUL = "matmul"
    PASSES = "passes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a task cannot do without."""

    hbm_bytes: int
    """Inputs read once and outputs written once."""
    matmul_flops: Mapping[DType, int] = field(default_factory=dict)
    """Two for each multiply and add, by the format of the operands."""
    elementwise_elems: int = 0
    """Elements times the fewest passes of an element-wise engine that the instructions allow."""
    elementwise_dtype: DType = DType.FLOAT32


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The least time, where it comes from, and the time of each resource alone."""

    ns: float
    resource: Roof
    parts_ns: Mapping[Roof, float]
    work: Work

    def percent(self, latency_ns: float) -> float:
        """The bound as a percentage of a latency; 100 is perfect."""
        return 100.0 * self.ns / latency_ns if latency_ns else 0.0


def bound_ns(work: Work, chip: ChipSpec, *, cores: int = 1) -> Bound:
    """The largest of the times that bytes, matmuls and passes need, shared out to all cores."""
    parts = {
        Roof.BYTES: work.hbm_bytes / dma_bytes_per_ns(chip) / cores,
        Roof.MATMUL: sum(
            flops * _passes(dtype, chip) / _matmul_flops_per_ns(chip) / cores
            for dtype, flops in work.matmul_flops.items()
        ),
        Roof.PASSES: work.elementwise_elems / _elems_per_ns(work.elementwise_dtype, chip) / cores,
    }
    resource = max(parts, key=lambda roof: parts[roof])
    return Bound(ns=parts[resource], resource=resource, parts_ns=parts, work=work)


def dma_bytes_per_ns(chip: ChipSpec) -> float:
    """Rate at which one core moves HBM bytes, in and out together."""
    return min(chip.dma_bytes_per_ns, chip.hbm_bytes_per_ns_per_core)


def _passes(dtype: DType, chip: ChipSpec) -> float:
    """The fewest that the format needs, as a share of those of a 16-bit one."""
    if dtype is DType.FLOAT32:
        return min(SPLIT_PASSES, chip.matmul_fp32_passes)
    return 1 / chip.matmul_fp8_rows if dtype in FP8 else 1.0


def _matmul_flops_per_ns(chip: ChipSpec) -> float:
    return 2 * chip.partitions * chip.matmul_stationary_free_max * chip.tensor_clock_ghz


def _elems_per_ns(dtype: DType, chip: ChipSpec) -> float:
    """All three element-wise engines together, each in its fastest mode."""
    short = dtype in SHORT_FLOATS
    vector = chip.vector_clock_ghz * (chip.vector_fast_factor if short else 1)
    scalar = chip.scalar_clock_ghz * (chip.scalar_fast_factor if short else 1)
    return chip.partitions * (vector + scalar + chip.gpsimd_clock_ghz)
