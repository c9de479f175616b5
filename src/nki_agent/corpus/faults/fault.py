"""One kind of fault: which family it is of, and where in a kernel it could be made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from nki_agent.corpus.faults.kernel_text import Change, KernelText


class FaultFamily(StrEnum):
    """What goes wrong in kernels that models write."""

    SIZES = "size and index"
    NAMES = "wrong names"
    LIMITS = "tile limits"
    MEMORY = "memory region"
    NUMERICS = "numerics"
    DIALECT = "wrong dialect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a fault can be planted, and what is then wrong, as a clause about the faulty kernel."""

    changes: Sequence[Change]
    cause: str


Find = Callable[[KernelText], Iterator[Place]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A kind of fault."""

    name: str
    """`tail-not-clipped`."""
    family: FaultFamily
    find: Find
