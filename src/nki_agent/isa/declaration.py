"""The form in which an instruction is declared.

A `Declaration` holds the parameters of the public function in call order (so that the front end and
the checker bind arguments from it), the rules that a call must keep, which engines may run it, and
its cost. Nothing here runs a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine, Memory
from nki_agent.isa.signature import Operand, Signature


class Kind(StrEnum):
    """What a parameter of an instruction is."""

    OUTPUT = "output"
    INPUT = "input"
    INPUTS = "inputs"
    """A list of tensors; their operands have the roles `srcs0`, `srcs1`, ..."""
    OUTPUTS = "outputs"
    """A list of tensors that the instruction writes."""
    UPDATE = "update"
    """Read and written by the same instruction."""
    SCALAR = "scalar"
    """An immediate number, or a tile of shape (P, 1)."""
    VALUE = "value"
    """A number that is always an immediate."""
    ALU_OP = "alu_op"
    ACTIVATION_OP = "activation_op"
    FLAG = "flag"
    INT = "int"
    AXES = "axes"
    INTS = "ints"
    AFFINE_PATTERN = "affine_pattern"
    """[[step, count], ...] over the free axes."""
    GROUPS = "groups"
    """[[rank, ...], ...]: lists of ranks, or pairs of them."""
    ENUM = "enum"
    TEXT = "text"
    REGISTER = "register"
    WORD = "word"
    """A register, or an int that the instruction carries."""
    ENGINE = "engine"


LIST_KINDS = (Kind.INPUTS, Kind.OUTPUTS)
TENSOR_KINDS = (Kind.OUTPUT, Kind.INPUT, *LIST_KINDS, Kind.UPDATE, Kind.SCALAR)
WRITTEN_KINDS = (Kind.OUTPUT, Kind.OUTPUTS, Kind.UPDATE)


class Missing:
    """The type of `REQUIRED`."""

    def __repr__(self) -> str:
        """Shown in generated signatures."""
        return "REQUIRED"


REQUIRED = Missing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of the public function."""

    name: str
    kind: Kind
    default: object = REQUIRED
    memories: tuple[Memory, ...] = ()
    dtypes: tuple[DType, ...] = ()
    """Allowed formats; empty means any."""
    choices: type[StrEnum] | None = None
    start_offsets: tuple[int, ...] = (0,)
    """Partitions after an ordinary start partition at which the operand may start too."""
    first_generation: int = 2
    """First generation that accepts a value other than the default."""

    @property
    def is_optional(self) -> bool:
        """Whether a call may leave it out."""
        return self.default is not REQUIRED

    @property
    def is_tensor(self) -> bool:
        """Whether it takes a tensor (a scalar parameter may)."""
        return self.kind in TENSOR_KINDS


OFFSET_SUFFIX = ".offset"
"""Ends the role of the operand that holds another operand's run-time offsets."""
OFFSET_PARAMETER = Parameter(
    name="offset",
    kind=Kind.INPUT,
    memories=(Memory.SBUF,),
    dtypes=(DType.INT32, DType.UINT32, DType.UINT16, DType.INT16),
)


@dataclass(frozen=True, slots=True)
class Call:
    """One signature seen against its declaration and a chip: what rules and costs read."""

    declaration: Declaration
    signature: Signature
    chip: ChipSpec

    def find(self, role: str) -> Operand | None:
        """The tensor operand with this role; None if absent or an immediate."""
        operand = self.signature.find(role)
        return None if operand is None or operand.is_immediate else operand

    def get(self, role: str) -> Operand:
        """The operand with this role; KeyError if there is none."""
        return self.signature.get(role)

    def attribute(self, name: str) -> object:
        """The value of an attribute."""
        return self.signature.attribute(name)


Rule = Callable[[Call], Iterator[Diagnostic]]
Cycles = Callable[[Call, Engine], float]
EngineChoice = Callable[[Call], tuple[Engine, ...]]


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """One instruction of `nki.isa`."""

    name: str
    parameters: tuple[Parameter, ...]
    engines: EngineChoice
    """Engines that may run a call, best first; empty when none may."""
    rules: tuple[Rule, ...] = ()
    cycles: Cycles | None
    """Cycles of the engine for one call, start-up left out; None for DMA."""
    page: str
    first_generation: int = 2
    has_name: bool = True
    """Whether the public function takes `name=`, a label for people."""
    index: int = field(default=-1)

    @cached_property
    def tensor_parameters(self) -> tuple[Parameter, ...]:
        """Parameters that may hold a tensor, in call order: the order of a signature's operands."""
        return tuple(p for p in self.parameters if p.is_tensor or p.kind in (Kind.VALUE, Kind.WORD))

    @cached_property
    def register_parameters(self) -> tuple[Parameter, ...]:
        """Parameters that may hold a register, in call order."""
        return tuple(p for p in self.parameters if p.kind in (Kind.REGISTER, Kind.WORD))

    @cached_property
    def attribute_parameters(self) -> tuple[Parameter, ...]:
        """Parameters whose values are part of the signature."""
        return tuple(
            p
            for p in self.parameters
            if not p.is_tensor and p.kind not in (Kind.VALUE, Kind.ENGINE, Kind.REGISTER, Kind.WORD)
        )

    def parameter(self, name: str) -> Parameter:
        """The parameter of this name, or of an operand's role; KeyError if there is none."""
        found = self._by_name.get(name)
        return self._find_parameter(name) if found is None else found

    @cached_property
    def _by_name(self) -> dict[str, Parameter]:
        return {p.name: p for p in reversed(self.parameters) if OFFSET_SUFFIX not in p.name}

    def _find_parameter(self, name: str) -> Parameter:
        """The same for roles that are no parameter's name: of a list's part, of an offset."""
        role = name.removesuffix(OFFSET_SUFFIX)
        if role != name and self.parameter(role).is_tensor:
            return OFFSET_PARAMETER
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
            is_list = parameter.kind in LIST_KINDS and name.startswith(parameter.name)
            if is_list and name[len(parameter.name) :].isdecimal():
                return parameter
        raise KeyError(name)

    def written_roles(self, signature: Signature) -> tuple[str, ...]:
        """Roles of the operands that a call writes."""
        return tuple(
            o.role for o in signature.operands if self.parameter(o.role).kind in WRITTEN_KINDS
        )


def output(name: str, *memories: Memory, **more: object) -> Parameter:
    """A tensor that the instruction writes."""
    return Parameter(name=name, kind=Kind.OUTPUT, memories=memories, **more)  # type: ignore[arg-type]


def source(name: str, *memories: Memory, **more: object) -> Parameter:
    """A tensor that the instruction reads."""
    return Parameter(name=name, kind=Kind.INPUT, memories=memories, **more)  # type: ignore[arg-type]


def update(name: str, *memories: Memory, **more: object) -> Parameter:
    """A tensor that the instruction reads and writes."""
    return Parameter(name=name, kind=Kind.UPDATE, memories=memories, **more)  # type: ignore[arg-type]


def scalar(name: str, *memories: Memory, **more: object) -> Parameter:
    """An immediate or a tile of shape (P, 1)."""
    return Parameter(name=name, kind=Kind.SCALAR, memories=memories, **more)  # type: ignore[arg-type]


def option(name: str, kind: Kind, default: object = REQUIRED, **more: object) -> Parameter:
    """A parameter that is no tensor."""
    return Parameter(name=name, kind=kind, default=default, **more)  # type: ignore[arg-type]


def engine_option(default: Engine | None = None) -> Parameter:
    """The `engine=` parameter that many instructions have; None leaves the choice open."""
    return Parameter(name="engine", kind=Kind.ENGINE, default=default)


def any_of(*engines: Engine) -> EngineChoice:
    """Every call may run on any of these, best first."""
    return lambda _call: engines


EMPTY: Mapping[str, object] = {}
