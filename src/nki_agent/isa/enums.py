"""The closed sets that instructions refer to.

Source: nki.isa enums and nki.language memory regions (NKI 0.6.0).
"""

from __future__ import annotations

from enum import StrEnum


class Memory(StrEnum):
    """Where a tensor lives."""

    SBUF = "sbuf"
    PSUM = "psum"
    HBM = "hbm"
    PRIVATE_HBM = "private_hbm"
    SHARED_HBM = "shared_hbm"

    is_on_chip: bool
    """Whether it has a partition dimension."""


ON_CHIP = (Memory.SBUF, Memory.PSUM)
for _memory in Memory:
    _memory.is_on_chip = _memory in ON_CHIP
ANY_HBM = (Memory.HBM, Memory.PRIVATE_HBM, Memory.SHARED_HBM)


class Engine(StrEnum):
    """What carries an instruction out; `dma` stands for the DMA engines of one core."""

    TENSOR = "tensor"
    VECTOR = "vector"
    SCALAR = "scalar"
    GPSIMD = "gpsimd"
    SYNC = "sync"
    DMA = "dma"


class ReduceCommand(StrEnum):
    """What an instruction does to its engine's accumulator registers."""

    IDLE = "idle"
    RESET = "reset"
    REDUCE = "reduce"
    RESET_REDUCE = "reset_reduce"
    LOAD_REDUCE = "load_reduce"


class DgeMode(StrEnum):
    """Who makes the DMA descriptors."""

    UNKNOWN = "unknown"
    SWDGE = "swdge"
    HWDGE = "hwdge"
    NONE = "none"


class OobMode(StrEnum):
    """What a dynamic DMA does with an index outside of the tensor."""

    ERROR = "error"
    SKIP = "skip"


class DmaEngine(StrEnum):
    """What carries a transfer between two cores."""

    DMA = "dma"
    GPSIMD_DMA = "gpsimd_dma"


class PerfMode(StrEnum):
    """Tensor Engine performance modes."""

    NONE = "none"
    DOUBLE_ROW = "double_row"
