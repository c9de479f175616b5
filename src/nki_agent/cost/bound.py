"""The least time that any kernel needs for a task on a chip.

Law: no correct kernel's Timeline is shorter; one that is shows an error of the Work or of the
model. Each resource is taken alone, with all of it busy all the time: HBM bytes at the effective
DMA rate, matmuls on the full array, elements past the element-wise engines in their fastest mode.
Not covered: start-up, dependencies, memory that does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType

FULL_PRECISION = (DType.FLOAT32,)
"""Formats that the Tensor Engine takes in several passes."""
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


def _passes(dtype: DType, chip: ChipSpec) -> int:
    return chip.matmul_fp32_passes if dtype in FULL_PRECISION else 1


def _matmul_flops_per_ns(chip: ChipSpec) -> float:
    return 2 * chip.partitions * chip.matmul_stationary_free_max * chip.tensor_clock_ghz


def _elems_per_ns(dtype: DType, chip: ChipSpec) -> float:
    """All three element-wise engines together, each in its fastest mode."""
    short = dtype in SHORT_FLOATS
    vector = chip.vector_clock_ghz * (chip.vector_fast_factor if short else 1)
    scalar = chip.scalar_clock_ghz * (chip.scalar_fast_factor if short else 1)
    return chip.partitions * (vector + scalar + chip.gpsimd_clock_ghz)
