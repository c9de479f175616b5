"""The random functions of `nki.language`: `rand`, `random_seed`, `dropout`.

Law: all three use the Vector Engine's generator, so that `random_seed` sets what `rand` draws.
`rand` takes `nisa.rand2` where the chip has it (v4), else the upper 24 of 32 bits of `nisa.rng`
times 2**-24: at least 0 and below 1 in float32 either way; a narrower dtype may round up to 1.
Source: nki.language docstrings (0.6.0); the instructions are our choice.
"""

from __future__ import annotations

from nki_agent.isa.chance import GEN4
from nki_agent.isa.dtype import DType
from nki_agent.nki.current.allocation import ISA, LANGUAGE, allocate, copy, public, tile_like
from nki_agent.nki.current.recorder import fail, require_recorder
from nki_agent.nki.current.tensor import NkiTensor
from nki_agent.nki.current.values import SBUF

DROPPED_BITS = 8
UNIT = 2.0**-24


@public
def rand(shape: object, dtype: object, buffer: object = SBUF, name: str = "") -> NkiTensor:
    """Allocate an on-chip tensor and fill it with uniform numbers from 0 to 1."""
    tensor = allocate(shape, dtype, buffer, name)
    if not tensor.buffer.memory.is_on_chip:
        fail(
            "NK114",
            f"random numbers in {tensor.buffer}",
            hint="fill an SBUF tile and copy it out with `nisa.dma_copy`",
        )
    rows = tensor.reshape((tensor.shape[0], -1))
    if require_recorder("nl.rand").chip.generation >= GEN4:
        ISA["rand2"](dst=rows, min=0.0, max=1.0)
        return tensor
    bits = allocate(rows.shape, DType.UINT32)
    ISA["rng"](dst=bits)
    ISA["tensor_scalar"](dst=bits, data=bits, op0=LANGUAGE["right_shift"], operand0=DROPPED_BITS)
    ISA["tensor_scalar"](dst=rows, data=bits, op0=LANGUAGE["multiply"], operand0=UNIT)
    return tensor


@public
def random_seed(seed: NkiTensor) -> None:
    """Seed `nl.rand` and `nl.dropout` with a (1, 1) tile of a 32-bit dtype."""
    ISA["set_rng_seed"](src_seeds=seed)


@public
def dropout(x: NkiTensor, rate: object, dtype: object = None) -> NkiTensor:
    """X with zeros by chance; `rate` is the share of zeros, a number or a (P, 1) tile."""
    tile = tile_like(x, None)
    ISA["dropout"](dst=tile, data=x, prob=rate)
    return tile if dtype in (None, tile.dtype) else copy(tile, dtype)
