"""What one run of a reference did, as far as bounds and tolerances need it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nki_agent.isa.dtype import DType

# fmt: off
_ORDERS = frozenset({
    "amax", "amin", "argmax", "argmin", "argsort", "cummax", "cummin", "_cummax_helper",
    "_cummin_helper", "kthvalue", "max", "min", "max_pool2d_with_indices",
    "max_pool3d_with_indices", "sort", "topk",
})
# fmt: on
_PICKS = frozenset({"argmax", "argmin", "argsort", "kthvalue", "sort", "topk"})
_COMPARISONS = frozenset({"eq", "ge", "gt", "le", "lt", "ne"})
EXPONENTIALS = frozenset({"_softmax", "_log_softmax", "_safe_softmax", "exp", "logsumexp"})
ROWS_OF_EXPONENTIALS = EXPONENTIALS - {"exp"} | {"amax", "max"}
"""Operations along an axis over what exponentials are taken of."""


@dataclass(slots=True, kw_only=True)
class Record:
    """Filled while the reference runs once. Counts of elements are by argument name."""

    ops: set[str] = field(default_factory=set)
    matmul_flops: dict[DType, int] = field(default_factory=dict)
    depth: int = 1
    """The longest sum in one operation."""
    touched: dict[str, int] | None = None
    """Elements read of each argument; None where reads could not be followed."""
    written: dict[str, int] = field(default_factory=dict)
    computed: dict[str, int] = field(default_factory=dict)
    """Elements that arithmetic outside a matmul reads of each argument."""
    only_moves: bool = False
    """Nothing was computed: views, copies, gathers and selections by position."""
    is_exact: bool = False
    """Every value of the outputs is one of the inputs' or an integer: nothing was rounded."""
    quantises: bool = False
    """Reals were cast to 8-bit floats on the way."""
    hidden_shapes: list[tuple[int, ...]] = field(default_factory=list)
    """Tensors that were read, but are neither arguments nor made by the reference."""

    @property
    def reduces(self) -> bool:
        """Whether sums, orders or maxima over several elements ran; True where it is unknown."""
        return not self.ops or self.depth > 1 or not _ORDERS.isdisjoint(self.ops)

    @property
    def orders(self) -> bool:
        """Whether places in an order were asked for, of which equal values have none."""
        return not _PICKS.isdisjoint(self.ops)

    @property
    def compares(self) -> bool:
        """Whether values were compared that equal values would show, and nothing was multiplied."""
        return not (self.has_matmul or self.orders or _COMPARISONS.isdisjoint(self.ops))

    @property
    def picks(self) -> bool:
        """Whether the order of computed values decides what the outputs are made of."""
        return self.has_matmul and self.orders

    @property
    def weighs(self) -> bool:
        """Whether exponentials of a row were summed up: a softmax, or what is made of one."""
        return not EXPONENTIALS.isdisjoint(self.ops)

    def add_matmul(self, dtype: DType, *, flops: int, depth: int) -> None:
        """Count one matmul or convolution."""
        self.matmul_flops[dtype] = self.matmul_flops.get(dtype, 0) + flops
        self.depth = max(self.depth, depth)

    @property
    def has_matmul(self) -> bool:
        """Whether any matmul or convolution ran."""
        return bool(self.matmul_flops)


def count(counts: dict[str, int], name: str, elems: int) -> None:
    """Add elements to one argument's count."""
    counts[name] = counts.get(name, 0) + elems


def capped(counts: Mapping[str, int], name: str, limit: int) -> int:
    """An argument's count, at most its size: reading twice still needs one transfer."""
    return min(counts.get(name, 0), limit)
