"""What a kernel is written with: all of NKI, or its instructions alone, at addresses of its own.

Law: on the surface `isa` a kernel takes from `nki.language` what neither `nki.isa` nor Python can
say: names of dtypes, memories and operators, `ndarray` with an address, the core that it runs on,
run-time loops and order. All that computes, moves or fills is an instruction of `nki.isa`, and
every tensor in SBUF and PSUM lies where the kernel says.
Not covered: whether an address is legal (NK215) or free (NK209).
"""

from __future__ import annotations

from enum import StrEnum

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.isa.dtype import DType
from nki_agent.isa.ops import ACTIVATIONS, ALU_OPS
from nki_agent.nki.current.allocation import LANGUAGE
from nki_agent.nki.current.values import REGIONS


class Surface(StrEnum):
    """The part of NKI that a kernel may use."""

    NKI = "nki"
    """All of it."""
    ISA = "isa"
    """Instructions of `nki.isa` on tensors with explicit addresses."""


CODE = "NK119"
MEMORIES = frozenset(region.memory.value for region in REGIONS.values())
DTYPES = frozenset(dtype.value for dtype in DType)
OPERATORS = frozenset((*ALU_OPS, *ACTIVATIONS))
"""Names that `op=` takes; those that are functions too may not be called."""
# fmt: off
KEPT = frozenset({
    "ndarray", "tile_size", "program_id", "num_programs", "program_ndim", "ds", "fori_loop",
    "while_loop", "no_reorder", "device_print", "NKIObject", "NkiTensor", "DType", "MemoryRegion",
})
# fmt: on
"""Of `nki.language`, beside names of dtypes, memories and operators."""


def is_kept(name: str) -> bool:
    """Whether the surface `isa` has this name of `nki.language`.

    >>> is_kept("float32"), is_kept("exp"), is_kept("load")
    (True, True, False)
    """
    return name in KEPT or name in MEMORIES or name in OPERATORS or name in DTYPES


def list_withheld(surface: Surface) -> frozenset[str]:
    """The functions of `nki.language` that a trace for this surface has not."""
    if surface is Surface.NKI:
        return frozenset()
    return frozenset(n for n, f in LANGUAGE.items() if callable(f) and not is_kept(n))


def lacks_address(memory: str) -> Diagnostic:
    """The finding for a tensor that leaves its place to the compiler."""
    return Diagnostic(
        code=CODE,
        what=f"a tensor in {memory.upper()} without `address` is not on the surface `isa`",
        hint="give its place: `nl.ndarray(shape, dtype, buffer=…, address=(partition, byte))`;"
        " in PSUM the byte is a bank's first",
    )
