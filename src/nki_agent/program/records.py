"""A Program: NKI instructions on views of memory, and the loops a dialect keeps, as data.

Law: a Program holds no data of a task and no code. Everything in it came from an untrusted process,
so ids are only used after `validate.require_valid`, and text only through `base.diagnostic.clean`.
Loops, guards, scopes and masks are for the dialect that keeps them; the current one unrolls.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from nki_agent.base.diagnostic import Diagnostic, Frame, Stack
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Memory, OobMode
from nki_agent.isa.signature import Condition, Signature

SCHEMA = 1
"""Raised by every change that an older reader would misread."""

Scalar = bool | int | float | str | None
StaticValue = Scalar | tuple[Scalar, ...]


class Dialect(StrEnum):
    """The front end that made a Program."""

    CURRENT = "nki"
    BETA1 = "neuronxcc.nki"


class Access(StrEnum):
    """What a kernel does with an argument."""

    READ = "read"
    WRITE = "write"
    UPDATE = "update"


class Init(StrEnum):
    """What a tensor holds before its first write."""

    POISON = "poison"
    LAZY_ZERO = "lazy_zero"
    CONSTANT = "constant"
    ARGUMENT = "argument"


class LoopKind(StrEnum):
    """Who counts a loop and whether its iterations may run in any order."""

    AFFINE = "affine"
    SEQUENTIAL = "sequential"
    GRID = "grid"
    FORI = "fori"
    WHILE = "while"


class ScopeKind(StrEnum):
    """What a scope asks of the scheduler or the allocator."""

    NO_REORDER = "no_reorder"
    ALLOCATION = "allocation"
    MULTI_BUFFER = "multi_buffer"


class Affine(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`const + sum(coefficient * loop index)`; terms are (loop id, coefficient)."""

    const: int
    terms: tuple[tuple[int, int], ...]


class Argument(msgspec.Struct, frozen=True, array_like=True):
    """One kernel argument: a tensor, or a value known while tracing."""

    name: str
    tensor: int | None
    value: StaticValue
    access: Access


class Tensor(msgspec.Struct, frozen=True, array_like=True):
    """One allocation. On chip, axis 0 is the partition axis and each partition holds the rest.

    `blocks` counts logical copies in front of the tile (the older dialect's block dimensions).
    `scope` is the path of loop ids that it was created in. `address` is (partition, byte) if given.
    `constant` indexes `Program.constants`.
    """

    name: str
    memory: Memory
    shape: tuple[int, ...]
    dtype: DType
    init: Init
    stack: int
    address: tuple[int, int] | None = None
    constant: int | None = None
    blocks: tuple[int, ...] = ()
    scope: tuple[int, ...] = ()

    @property
    def partitions(self) -> int:
        """Size of the partition axis; 1 in HBM."""
        return self.shape[0] if self.memory.is_on_chip else 1

    @property
    def partition_bytes(self) -> int:
        """Bytes of one partition on chip; bytes of the whole tensor in HBM."""
        size = self.dtype.itemsize
        for count in self.shape[1:] if self.memory.is_on_chip else self.shape:
            size *= count
        return size


class Result(msgspec.Struct, frozen=True, array_like=True):
    """One returned tensor: the whole of an HBM tensor, seen with `shape`."""

    tensor: int
    shape: tuple[int, ...]


class Constant(msgspec.Struct, frozen=True, array_like=True):
    """An array that the kernel computed on the host; it counts as an HBM input."""

    sha256: str
    dtype: DType
    shape: tuple[int, ...]
    data: bytes


class Register(msgspec.Struct, frozen=True, array_like=True):
    """A 32-bit register of an engine's sequencer."""

    name: str
    initial: int | None


class DynamicKind(StrEnum):
    """How a run-time value moves an operand."""

    SCALAR = "scalar"
    VECTOR = "vector"
    INDIRECT = "indirect"


class Dynamic(msgspec.Struct, frozen=True, array_like=True):
    """A run-time offset of one operand.

    `operand` counts the signature's tensor operands. The value comes from `register`, or from the
    operand with the role `<role>.offset`. `scalar` moves the whole view by value * stride;
    `vector` gives each index of the view's first axis its own row: row i begins at
    offset + value[i] * stride; `indirect` picks free elements of each partition by a list of
    offsets that lies in a snake over `stride_bytes` partitions.
    """

    operand: int
    kind: DynamicKind
    register: int | None
    stride_bytes: int
    oob: OobMode


class Detail(msgspec.Struct, frozen=True, array_like=True):
    """What few instructions have: blocks of their tensors, run-time offsets, explicit order.

    `after` holds numbers of earlier instructions of the same core, counted in program order, loop
    bodies once. `registers` are the registers that a register instruction names, in call order.
    """

    blocks: tuple[tuple[Affine, ...], ...] = ()
    dynamic: tuple[Dynamic, ...] = ()
    after: tuple[int, ...] = ()
    registers: tuple[int, ...] = ()


class Instruction(msgspec.Struct, frozen=True, array_like=True, tag=0, gc=False):
    """One instruction: a signature bound to tensors.

    `tensors` and `offsets` follow the signature's tensor operands in order, `immediates` its
    immediate operands. An offset counts bytes inside a partition on chip, inside the tensor in HBM.
    """

    signature: int
    tensors: tuple[int, ...]
    offsets: tuple[int | Affine, ...]
    immediates: tuple[float | int, ...]
    stack: int
    detail: Detail | None = None


class Loop(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A loop that the dialect keeps; loops are numbered in program order over all cores.

    In a `fori` loop, `index` is the register that the body reads, and a bound may be a register in
    place of a number. In a `while` loop, `index` holds `test` before the first iteration and `next`
    before the later ones, and the loop ends when it is 0.
    """

    kind: LoopKind
    number: int
    index: int
    lower: int | Affine
    upper: int | Affine | None
    step: int
    body: tuple[Node, ...]
    stack: int
    lower_register: int | None = None
    upper_register: int | None = None
    test: int | None = None
    next: int | None = None


class Guard(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A body that runs where every condition over loop indices holds."""

    conditions: tuple[Condition, ...]
    body: tuple[Node, ...]


class Scope(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A body with a request to the scheduler or the allocator."""

    kind: ScopeKind
    factor: int
    body: tuple[Node, ...]


Node = Instruction | Loop | Guard | Scope


class Launch(msgspec.Struct, frozen=True, array_like=True):
    """How a kernel was started."""

    grid: tuple[int, ...] = ()
    cores: int = 1
    ranks: int = 1


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A traced kernel. Ids are indices into the tuples of this record."""

    schema: int = SCHEMA
    dialect: Dialect
    target: str
    kernel: str
    launch: Launch
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    tensors: tuple[Tensor, ...]
    constants: tuple[Constant, ...]
    registers: tuple[Register, ...]
    signatures: tuple[Signature, ...]
    sites: tuple[Frame, ...]
    stacks: tuple[tuple[int, ...], ...]
    bodies: tuple[tuple[Node, ...], ...]

    def stack(self, index: int) -> Stack:
        """The call stack of this id, outermost frame first."""
        return tuple(self.sites[site] for site in self.stacks[index])

    def instructions(self, core: int = 0) -> Iterator[Instruction]:
        """Every instruction of one core in program order, loop bodies once."""
        return walk(self.bodies[core]) if core < len(self.bodies) else iter(())

    def all_instructions(self) -> Iterator[Instruction]:
        """Every instruction of every core."""
        for core in range(len(self.bodies)):
            yield from self.instructions(core)

    @property
    def num_instructions(self) -> int:
        """Instructions of every core, loop bodies once."""
        return sum(1 for _ in self.all_instructions())

    @property
    def is_flat(self) -> bool:
        """Whether one core runs instructions one after the other: no loop, no scope."""
        return len(self.bodies) == 1 and all(isinstance(n, Instruction) for n in self.bodies[0])


class MovedRows(msgspec.Struct, frozen=True, array_like=True):
    """What one instruction's run-time indices came to, over all times that it ran.

    `instruction` counts those of its core in program order, loop bodies once.
    """

    core: int
    instruction: int
    moved: int
    skipped: int


class Trips(msgspec.Struct, frozen=True, array_like=True):
    """What a run found out about a Program: how often its loops go round, what its indices move.

    `loops` has the iterations of each loop in all, by its number; `rows` each instruction that
    moves rows by indices, in program order. Both are empty where nothing depends on a run.
    """

    loops: tuple[int, ...] = ()
    rows: tuple[MovedRows, ...] = ()


NO_TRIPS = Trips()


class TraceReply(msgspec.Struct, frozen=True, kw_only=True):
    """What a tracing process hands back: a Program, or what stopped it."""

    program: Program | None
    findings: tuple[Diagnostic, ...]


def walk(body: tuple[Node, ...]) -> Iterator[Instruction]:
    """Every instruction of a body in order, loop bodies once."""
    for node in body:
        match node:
            case Instruction():
                yield node
            case Loop() | Guard() | Scope():
                yield from walk(node.body)
