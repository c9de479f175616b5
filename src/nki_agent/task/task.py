"""One task as plain records: what a kernel is given, what it must give back, and how it is judged.

A tensor of rank 0 has the shape (1,). Integers of 64 bits are stored in 32, since the chip has no
others. A task that does not declare its sizes has one shape set, `given`, that is both the one it
is proven on and the one its speed is measured on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from nki_agent.isa.dtype import DType
from nki_agent.task.family import STANDARD_SCALE, Family, FamilyScale
from nki_agent.task.reference import Reference
from nki_agent.task.tolerance import Tolerance, ToleranceClass, tolerance_for

Array = NDArray[Any]
StaticValue = int | float | bool | None

FORMAT_VERSION = 3
"""Part of every task's hash: rises when the same file starts to mean another task."""
GIVEN = "given"
"""The name of the only shape set of a user's task."""


class TensorKind(StrEnum):
    """Where a tensor argument comes from."""

    INPUT = "input"
    PARAMETER = "parameter"
    BUFFER = "buffer"


class Form(StrEnum):
    """What kind of reference the task file holds."""

    MODULE = "module"
    TORCH_FUNCTION = "torch function"
    NUMPY_FUNCTION = "numpy function"


class Scope(StrEnum):
    """How much a verdict covers."""

    PROOF = "proof"  # the shapes at which a kernel is proven right, dev and odd; speed at dev
    CLAIM = "claim"  # the perf shapes alone, for a kernel that has its proof; speed at perf
    ALL = "all"  # both; speed at perf


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorArgument:
    """A tensor that the kernel is given. `original` is its name in the task file."""

    name: str
    original: str
    kind: TensorKind
    shape: tuple[int, ...]
    dtype: DType
    is_updated: bool = False

    @property
    def num_elems(self) -> int:
        """Elements of the tensor."""
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensor in HBM."""
        return self.num_elems * self.dtype.itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticArgument:
    """A value that is known when the kernel is traced."""

    name: str
    value: StaticValue


Argument = TensorArgument | StaticArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A tensor that the kernel returns."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    is_constant: bool = False
    """Whether the reference gives the same values for all inputs that were tried."""

    @property
    def num_elems(self) -> int:
        """Elements of the tensor."""
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensor in HBM."""
        return self.num_elems * self.dtype.itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The least that any kernel must do: what a bound on its latency is made from."""

    min_hbm_bytes: int
    """Every element that is read or written, once, in its dtype."""
    matmul_flops_by_dtype: Mapping[DType, int] = field(default_factory=dict)
    """Two for each multiply and add of a dense matmul or convolution, by the operands' dtype."""
    elementwise_elems: int = 0
    """The largest tensor that an engine must pass over outside a matmul; 0 for pure movement."""
    reduction_depth: int = 1
    """The longest sum behind one element of an output."""

    @property
    def matmul_flops(self) -> int:
        """All matmul FLOPs."""
        return sum(self.matmul_flops_by_dtype.values())


class Sampler(Protocol):
    """Draws the tensor arguments of one trial, by name, in the order of the arguments."""

    def draw(self, seed: int, scale: FamilyScale) -> dict[str, Array]:
        """The same seed gives the same arrays in any process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeSet:
    """The task at one choice of its sizes."""

    name: str
    arguments: tuple[Argument, ...]
    outputs: tuple[Output, ...]
    work: Work
    scales: Mapping[Family, FamilyScale]
    reference: Reference = field(repr=False, compare=False)
    sampler: Sampler = field(repr=False, compare=False)

    @property
    def tensors(self) -> tuple[TensorArgument, ...]:
        """The tensor arguments: forward inputs, then parameters and buffers."""
        return tuple(a for a in self.arguments if isinstance(a, TensorArgument))

    @property
    def updates(self) -> tuple[TensorArgument, ...]:
        """The inputs that the kernel must update in place."""
        return tuple(a for a in self.tensors if a.is_updated)

    @property
    def results(self) -> tuple[Output, ...]:
        """Everything that is compared: the outputs, then the updated inputs."""
        updated = (Output(name=a.name, shape=a.shape, dtype=a.dtype) for a in self.updates)
        return (*self.outputs, *updated)

    def scale_of(self, family: Family) -> FamilyScale:
        """How a family changes the inputs here."""
        return self.scales.get(family, STANDARD_SCALE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A reference and everything needed to judge a kernel for it."""

    id: str
    source: str
    path: Path | None
    hash: str
    form: Form
    entry: str
    """The name of the class or function in the file."""
    tolerance: ToleranceClass
    dev: ShapeSet
    """Where a kernel is proven right."""
    perf: ShapeSet
    """Where its speed is measured; the same as `dev` for a user's task."""
    odd: ShapeSet | None = None
    """One more choice of sizes, unlike each other, that a kernel must be right at."""
    notes: tuple[str, ...] = ()
    """What was decided while loading that a user should know."""
    unfit: tuple[str, ...] = ()
    """What makes it unfit to judge kernels by, where its lint was asked: no word for an author."""
    resize: Callable[[Mapping[str, int]], ShapeSet] | None = field(
        default=None, compare=False, repr=False
    )
    """Makes the task at other sizes than its own, or raises a TaskError; it has no trials there.

    None where the file declares no sizes, or runs in a process of its own.
    """

    @property
    def shape_sets(self) -> tuple[ShapeSet, ...]:
        """The different shape sets, those for correctness first."""
        odd = () if self.odd is None else (self.odd,)
        perf = (self.perf,) if self.has_perf else ()
        return (self.dev, *odd, *perf)

    @property
    def has_perf(self) -> bool:
        """Whether it has perf shapes of its own; else its only ones stand for them."""
        return self.perf is not self.dev

    def looked_at(self, scope: Scope) -> ShapeSet:
        """Where a kernel is looked at without data: a claim is about the perf shapes."""
        return self.perf if scope is Scope.CLAIM else self.dev

    def shape_sets_in(self, scope: Scope) -> tuple[ShapeSet, ...]:
        """The shape sets that a verdict of this scope runs."""
        match scope:
            case Scope.PROOF:
                return tuple(s for s in self.shape_sets if s is self.dev or s is self.odd)
            case Scope.CLAIM:
                return (self.perf,)
            case Scope.ALL:
                return self.shape_sets

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The kernel's arguments at the dev shapes."""
        return self.dev.arguments

    @property
    def tensors(self) -> tuple[TensorArgument, ...]:
        """The kernel's tensor arguments at the dev shapes."""
        return self.dev.tensors

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The kernel's results at the dev shapes, in the order in which it returns them."""
        return self.dev.outputs

    @property
    def updates(self) -> tuple[str, ...]:
        """Names of the inputs that are updated in place."""
        return tuple(a.name for a in self.dev.updates)

    @property
    def work(self) -> Work:
        """The least work at the perf shapes."""
        return self.perf.work

    def tolerance_of(self, output: Output) -> Tolerance:
        """The limits for one output, without a family's slack."""
        return tolerance_for(self.tolerance, output.dtype)
