"""Every decision of the planner that has no one best answer, by name, with what it tries first.

Law: a kernel is right under any choice; they differ in how long it takes. A default is what is
best most often; the author's search tries the others, one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import TypeVar


class Phases(StrEnum):
    """Which later steps of a tile run one tile behind its earlier ones."""

    NONE = "none"
    NEEDED = "needed"
    """Those of an engine that waits for what waits for its own earlier steps."""
    EVERY = "every"
    """Those of any engine that waits for another."""


class Leaving(StrEnum):
    """Which engine copies turned operands out of PSUM."""

    VECTOR = "vector"
    SCALAR = "scalar"
    BOTH = "both"
    """Half of each tile on either."""
    SUITED = "suited"
    """The Scalar Engine beside attention that keeps the Vector Engine busy, else both."""


Value = int | float | bool | str
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """How one kernel is planned where there is a choice."""

    col_block: int = 2048
    """Columns of one tile where rows may be cut: 8 KiB a partition in float32, past what DMA
    needs."""
    sbuf_share: float = 0.9
    """Part of SBUF that a plan may fill by its own count."""
    sharing: bool = True
    """Whether the engines share the steps of a tile, else each has the engine that it has alone."""
    phases: Phases = Phases.NEEDED
    """How the steps of a tile are cut, so that engines need not wait for each other."""
    short_tiles: bool = False
    """Whether values between 16-bit tensors are 16 bits too, as the reference has them."""
    long_functions: bool = False
    """Whether among such values results of functions, and their squares, stay in float32: what is
    left of them when they are subtracted is often little."""
    split_products: bool = False
    """Whether float32 products are three of 16 bits each, as the bound of a task has them."""
    leaving: Leaving = Leaving.SUITED
    """What copies turned operands out of PSUM."""
    parking: bool = True
    """Whether tiles lie in PSUM that are read beside one from SBUF, where that is faster."""
    packing: bool = True
    """Whether short rows share a partition."""
    w_banks: int = 1
    """Blocks of w, each the columns of one product, that are loaded at a time."""
    w_share: float = 0.5
    """Part of SBUF that a whole w may take; a larger one is read for each group of rows of x."""
    rows_each: int = 8
    """Most short rows that share a partition while they are loaded to be turned."""
    row_group: int = 0
    """Most rows of x that each block of w serves; 0 takes as many as fit."""
    depth_group: int = 2048
    """Depth of a part of a product that is too deep for SBUF."""
    transpose_cols: int = 2048
    """Columns of a transpose's source that are loaded at a time."""
    tiling: int = 0
    """Which tiling of a convolution, the fastest by estimate first."""
    attention: bool = True
    """Whether attention is one stage where its scores fit SBUF."""
    joining: bool = True
    """Whether rows go from a gather or a product straight to the pass that uses them."""

    def first(self, tilings: Sequence[T]) -> Sequence[T]:
        """The chosen tiling, then all others in order."""
        chosen = tilings[self.tiling : self.tiling + 1]
        return [*chosen, *(t for t in tilings if t not in chosen)]

    @property
    def rounds(self) -> bool:
        """Whether values may be rounded that float32 would keep: only a verdict allows it."""
        return self.short_tiles or self.split_products

    def rounding(self, *, allowed: bool, long_functions: bool = False) -> Choices:
        """The same with all such rounding, all but that of functions, or none."""
        return replace(
            self,
            short_tiles=allowed,
            split_products=allowed,
            long_functions=allowed and long_functions,
        )

    def changes(self) -> dict[str, Value]:
        """What is not as it is by default."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }

    def but(self, changes: Mapping[str, Value]) -> Choices:
        """The same with some changed.

        Raises:
            TypeError: a choice that there is not.
        """
        return replace(self, **dict(changes))  # type: ignore[arg-type]


PLAIN = Choices(sharing=False, phases=Phases.NONE, parking=False, packing=False)
"""What is easiest to read: steps in their order, tiles in SBUF, nothing for an engine's sake."""


OPTIONS: Mapping[str, tuple[Value, ...]] = {
    "phases": tuple(Phases),
    "short_tiles": (False, True),
    "split_products": (False, True),
    "leaving": tuple(Leaving),
    "attention": (False, True),
    "sbuf_share": (0.25, 0.4, 0.6, 0.9),
    "col_block": (512, 1024, 2048, 4096, 8192),
    "rows_each": (1, 2, 4, 8),
    "w_banks": (1, 2, 4),
    "w_share": (0.0, 0.25, 0.5, 0.75),
    "row_group": (0, 256, 512, 1024),
    "tiling": (0, 1, 2, 3),
    "parking": (False, True),
    "packing": (False, True),
    "joining": (False, True),
    "depth_group": (1024, 2048, 4096),
    "transpose_cols": (512, 1024, 2048, 4096),
}
"""What a search may put in place of each default."""


PROVEN: tuple[tuple[str, Value], ...] = (
    ("short_tiles", True),
    ("split_products", True),
    ("leaving", Leaving.SCALAR),
    ("attention", False),
    ("sbuf_share", 0.4),
    ("col_block", 4096),
    ("leaving", Leaving.VECTOR),
    ("sbuf_share", 0.25),
    ("w_share", 0.0),
    ("phases", Phases.EVERY),
    ("rows_each", 1),
    ("col_block", 1024),
    ("sbuf_share", 0.6),
    ("row_group", 512),
    ("parking", False),
)
"""The steps that gained most over the tasks of the benchmark, the largest gain first."""


def list_changes(choices: Choices) -> Iterator[tuple[str, Value]]:
    """Every single step from these choices to others."""
    every = ((name, value) for name, values in OPTIONS.items() for value in values)
    for name, value in dict.fromkeys((*PROVEN, *every)):
        if value != getattr(choices, name):
            yield name, value
