"""What the trusted side asks of the locked process, and what may come back.

Law: an answer was made where foreign code ran. It is decoded into these types, its text is cleaned
before it is shown, and a wrong one spoils its own task and no other.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Measure(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How large is this task file?"""

    name: str
    source: str
    limit_elems: int
    has_data: bool
    """Run it on values; else it is followed on shapes alone."""


class Prove(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Load this task file and lint it."""

    name: str
    source: str


class Collect(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Run the modules of a package that makes tasks, and list them."""

    package: str
    modules: Mapping[str, str]
    """Text by dotted name; that of the package itself is under its own name."""
    wanted: tuple[str, ...]
    """Those to import; they may import the others."""


Question = Measure | Prove | Collect


class Measured(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What one call of the reference handles."""

    elems: int
    """Of the inputs, weights and outputs."""
    work_elems: int = 0
    """Of everything that its operations wrote."""
    flops: int = 0
    """Of matmuls and convolutions."""
    is_whole: bool = True
    """False where the inputs alone were over the limit, and nothing was called."""

    @property
    def figures(self) -> tuple[int, int, int]:
        """All three, to compare two measurements."""
        return (self.elems, self.work_elems, self.flops)


class Proved(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The task loads."""

    num_weights: int
    notes: tuple[str, ...]
    findings: tuple[str, ...]
    """What the lint has against it."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One task that a package made."""

    id: str
    name: str = ""
    level: int = 0
    category: str = ""
    model: str = ""
    inputs: str = ""
    init_inputs: str = ""


class Collected(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The tasks of a package."""

    tasks: tuple[Found, ...]


class TooLarge(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It ran out of memory or time."""

    reason: str


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It cannot be used."""

    reason: str


Answer = Measured | Proved | Collected | TooLarge | Refused
