"""One generation's facts as a typed record, read from the TOML file beside this module.

Law: code holds no number of the chip; it asks a `ChipSpec`. A missing or unknown key fails the
load.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache
from importlib.resources import files


class Target(StrEnum):
    """What a kernel is written for."""

    TRN1 = "trn1"
    INF2 = "inf2"
    TRN2 = "trn2"
    TRN3 = "trn3"


GENERATION: dict[Target, int] = {Target.TRN1: 2, Target.INF2: 2, Target.TRN2: 3, Target.TRN3: 4}
DEFAULT_TARGET = Target.TRN2


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipSpec:
    """Facts of one NeuronCore generation; rates are per core."""

    generation: int
    partitions: int
    """Partitions of SBUF and PSUM."""
    sbuf_partition_bytes: int
    """SBUF bytes of one partition."""
    sbuf_usable_partition_bytes: int
    """SBUF bytes of one partition that a kernel can have."""
    psum_partition_bytes: int
    """PSUM bytes of one partition."""
    psum_bank_bytes: int
    """Bytes of one PSUM bank in one partition."""
    psum_banks: int
    """PSUM banks."""
    hbm_bytes_per_ns_per_core: float
    """A core's share of the HBM bandwidth."""
    dma_engines_per_core: int
    """DMA engines that one core drives."""
    dma_engine_bytes_per_ns: float
    """Effective rate of one DMA engine."""
    dma_engine_peak_bytes_per_ns: float
    """Rate of one DMA engine inside a transfer."""
    dma_transfer_ns: float
    """Fixed time that a transfer holds each DMA engine that it uses."""
    dma_startup_ns: float
    """From a semaphore to the first byte of a DMA."""
    dma_descriptor_ns: float
    """Least time of one DMA descriptor on one engine."""
    dma_efficient_descriptor_bytes: int
    """Descriptors shorter than this waste bandwidth."""
    dma_transpose_hbm_share: float
    """Rate of a DMA transpose from HBM, as a share of a copy's."""
    dma_transpose_sbuf_share: float
    """Rate of a DMA transpose inside SBUF, as a share of a copy's."""
    dma_hwdge_ns: float
    """Time that a hardware-made descriptor takes its descriptor engine."""
    dma_swdge_descriptor_cycles: int
    """GpSimd cycles to make one descriptor in software."""
    tensor_clock_ghz: float
    vector_clock_ghz: float
    scalar_clock_ghz: float
    gpsimd_clock_ghz: float
    sync_clock_ghz: float
    min_instruction_cycles: int
    """Least issue interval of an engine."""
    vector_overhead_cycles: int
    scalar_overhead_cycles: int
    gpsimd_overhead_cycles: int
    tensor_overhead_cycles: int
    small_instruction_cycles: int
    """Least issue interval of Vector and Scalar for instructions with few elements."""
    loop_iteration_cycles: int
    """Cycles that every engine of a run-time loop spends on an iteration itself."""
    full_rate_stride_bytes: int
    """An innermost stride over this halves the rate of SBUF and PSUM."""
    vector_gpsimd_share_sbuf: bool
    """Whether Vector and GpSimd take turns at SBUF."""
    vector_scalar_share_psum: bool
    """Whether Vector and Scalar take turns at PSUM."""
    read_accumulator_cycles: int
    """Extra Scalar cycles to read the accumulators out."""
    matmul_stationary_free_max: int
    matmul_moving_free_max: int
    matmul_moving_free_max_16bit: int
    matmul_fp32_passes: int
    """Passes of an fp32 matmul relative to bf16."""
    matmul_fp8_rows: int
    """Rows of an fp8 contraction that one partition holds, in the time of one of bf16."""
    tensor_transpose_max: int
    vector_transpose_max: int
    bn_stats_free_max: int
    max8_free_min: int
    max8_free_max: int
    instruction_free_dims_max: int
    tensor_dims_max: int
    sbuf_free_elems_max: int
    psum_free_elems_max: int
    vector_fast_factor: int
    vector_half_fast_factor: int
    scalar_fast_factor: int

    @property
    def dma_bytes_per_ns(self) -> float:
        """Effective DMA rate of one core, all engines together."""
        return self.dma_engines_per_core * self.dma_engine_bytes_per_ns


def find_target(name: str) -> Target | None:
    """The target of this name (`trn2`, or `gen3` for a generation's own name), or None."""
    alias = {"gen2": "trn1", "gen3": "trn2", "gen4": "trn3"}.get(name, name)
    return Target(alias) if alias in Target._value2member_map_ else None


@cache
def load_chip(target: Target) -> ChipSpec:
    """The facts of the generation that `target` belongs to."""
    return load_generation(GENERATION[target])


@cache
def load_generation(generation: int) -> ChipSpec:
    """The facts of NeuronCore-v2, v3 or v4."""
    text = files("nki_agent.chip").joinpath(f"gen{generation}.toml").read_text(encoding="utf-8")
    rows = tomllib.loads(text)
    expected = {field.name: field.type for field in fields(ChipSpec)} | {}
    expected.pop("generation")
    if rows.keys() != expected.keys():
        raise ValueError(
            f"gen{generation}.toml: keys differ: {sorted(rows.keys() ^ expected.keys())}"
        )
    values = {key: row["value"] for key, row in rows.items()}
    return ChipSpec(generation=generation, **values)
