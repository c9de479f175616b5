"""One signature on tensors of given layouts: what a handler writes its steps on.

A handler asks for operands as float32 arrays of one shape, adds steps and stores the result; other
formats and shapes that do not fit become steps of their own, through temporaries.

Law: results go to a temporary where their format is not float32, so inputs are read before a
destination is written; where one NumPy call does both, NumPy takes care of overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import setitem
from typing import Any

import numpy as np

from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.isa.declaration import Call
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine
from nki_agent.isa.rules import engine_for
from nki_agent.isa.signature import Operand
from nki_agent.sim.axes import Axes, Shape, find_common_shape, natural_shape, split_axes
from nki_agent.sim.generator import FIRST_SEED, Generator, make_generator
from nki_agent.sim.plan import (
    Arg,
    Array,
    Convert,
    Hole,
    HoleKind,
    Plan,
    Step,
    ViewSpec,
    float_number,
    refuse,
)
from nki_agent.sim.printout import Printout
from nki_agent.sim.psum import Write
from nki_agent.sim.rounding import (
    FLOAT,
    decode,
    encode,
    largest_value,
    round_float,
    round_integer,
)
from nki_agent.sim.sequencer import Sequencer
from nki_agent.sim.storage import Layout, Scratch

EXACT_INT_MAX = 2**24
"""float32 holds every integer up to here."""
UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4)}
WORD_BYTES = 4


class Machine:
    """What all instructions of an execution share: temporaries, accumulators, what is printed."""

    def __init__(self, sequencer: Sequencer | None = None) -> None:
        """No memory yet."""
        self.sequencer = Sequencer() if sequencer is None else sequencer
        self.scratch = Scratch()
        self.registers: dict[Engine, Array] = {}
        """One float32 for each lane of an engine that accumulates."""
        self.printout = Printout()
        self.generators: dict[Engine, Generator] = {}
        """The random numbers of the engines that draw some."""

    def reset(self) -> None:
        """Nothing is printed; what the registers hold is not known."""
        self.printout.clear()
        self.sequencer.reset()
        for lanes in self.registers.values():
            lanes.fill(np.nan)
        for generator in self.generators.values():
            generator.seed(FIRST_SEED)


class Site:
    """See the module's docstring. `known` has the immediates that are 0 or 1, else None."""

    def __init__(
        self,
        call: Call,
        layouts: Sequence[Layout],
        known: Sequence[float | None],
        machine: Machine,
        write: Write = Write.FRESH,
        registers: tuple[int, ...] = (),
    ) -> None:
        """Start with no steps."""
        self.call = call
        self.write = write
        self.registers = registers
        operands = call.signature.operands
        tensors = [o.role for o in operands if o.memory is not None]
        numbers = [o.role for o in operands if o.memory is None]
        self._operands = {o.role: o for o in operands}
        self._axes: dict[str, Axes] = {}
        self._positions = {role: i for i, role in enumerate(tensors)}
        self._number_positions = {role: i for i, role in enumerate(numbers)}
        self._layouts = layouts
        self._known = known
        self._machine = machine
        self._scratch_count = 0
        self._views: list[ViewSpec] = []
        self._numbers: list[tuple[int, Convert]] = []
        self._steps: list[Step] = []

    def finish(self) -> Plan:
        """The plan of the steps so far."""
        return Plan(self._views, self._numbers, self._steps)

    # What the signature says.

    def operand(self, role: str) -> Operand:
        """The operand with this role."""
        return self._operands[role]

    def has_tensor(self, role: str) -> bool:
        """Whether the operand is there and is a tensor."""
        return role in self._positions

    def has_number(self, role: str) -> bool:
        """Whether the operand is there and is an immediate."""
        return role in self._number_positions

    def is_number(self, role: str, value: int) -> bool:
        """Whether the operand is the immediate 0 or 1 (no other can be asked for)."""
        position = self._number_positions.get(role)
        return position is not None and self._known[position] == value

    def name(self, attribute: str) -> str:
        """An attribute that names an operator or a command; empty if it is not set."""
        value = self.call.attribute(attribute)
        return "" if value is None else str(value)

    def flag(self, attribute: str) -> bool:
        """An attribute that is true or false."""
        return bool(self.call.attribute(attribute))

    @property
    def engine(self) -> Engine:
        """The engine that runs the call."""
        return engine_for(self.call)

    def layout(self, role: str) -> Layout:
        """How the operand's tensor is laid out."""
        return self._layouts[self._positions[role]]

    def axes(self, role: str) -> Axes:
        """The operand's walk over its buffer, the partition axis first where there is one."""
        known = self._axes.get(role)
        if known is not None:
            return known
        pattern, layout = self._operands[role].pattern, self.layout(role)
        widening = layout.widening
        axes = [(stride * widening, count) for stride, count in pattern.free]
        if pattern.partition is not None:
            _, step, count = pattern.partition
            axes.insert(0, (layout.row_bytes * step, count))
        found = self._axes[role] = tuple(axes)
        return found

    def tile_shape(self, *roles: str) -> Shape:
        """The shape (partitions, free...) in which these operands are walked together."""
        walks = [self.axes(role) for role in roles]
        free = self.operand(roles[0]).pattern.free_elems
        shape = find_common_shape(walks, keep=free)
        return shape if shape is not None else (walks[0][0][1], free)

    # Steps.

    def step(self, run: Callable[..., object], *args: object) -> None:
        """Add a call; a Hole among the arguments is filled in for each instruction."""
        self._steps.append(Step(run, args))

    def copy(self, dst: Arg, src: Arg) -> None:
        """Add an assignment, with NumPy's cast."""
        if dst is not src:
            self._steps.append(Step(setitem, (dst, ..., src)))

    def check(self, run: Callable[..., Diagnostic | None], *args: object) -> None:
        """Add a look at values for checked runs; it must change nothing."""
        self._steps.append(Step(run, args, is_check=True))

    def scratch(self, shape: Shape, dtype: np.dtype[Any] = FLOAT) -> Array:
        """A new temporary."""
        self._scratch_count += 1
        return self._machine.scratch.array(self._scratch_count - 1, shape, dtype)

    def view(self, role: str, shape: Shape, strides: Sequence[int], dtype: np.dtype[Any]) -> Hole:
        """A hole for a view of the operand's buffer."""
        operand, layout = self.operand(role), self.layout(role)
        partition = operand.pattern.partition
        start = 0 if partition is None else partition[0] * layout.row_bytes
        position = self._positions[role]
        spec = ViewSpec(position, shape, dtype, tuple(strides), start, layout.widening)
        self._views.append(spec)
        return Hole(HoleKind.VIEW, len(self._views) - 1)

    def number(self, role: str, convert: Convert = float_number) -> Hole:
        """A hole for an immediate, converted."""
        self._numbers.append((self._number_positions[role], convert))
        return Hole(HoleKind.NUMBER, len(self._numbers) - 1)

    @property
    def sequencer(self) -> Sequencer:
        """The core's registers; `registers` has the ids of those that the instruction names."""
        return self._machine.sequencer

    @property
    def printout(self) -> Printout:
        """What the kernel has printed."""
        return self._machine.printout

    def lanes(self, engine: Engine, role: str) -> Array:
        """The engine's accumulator registers of the lanes that the operand comes in on."""
        partition = self.operand(role).pattern.partition
        assert partition is not None
        start, step, count = partition
        registers = self._machine.registers
        if engine not in registers:
            registers[engine] = np.full(self.call.chip.partitions, np.nan, np.float32)
        return registers[engine][start : start + step * (count - 1) + 1 : step]

    def generator(self) -> Generator:
        """The random numbers of the engine that runs the call."""
        generators, engine = self._machine.generators, self.engine
        if engine not in generators:
            generators[engine] = make_generator(engine, self.call.chip)
        return generators[engine]

    # Loading and saving in the buffer's own format.

    def stored_dtype(self, role: str) -> np.dtype[Any]:
        """The NumPy dtype in which the operand's elements lie in the buffer."""
        layout, dtype = self.layout(role), self.operand(role).dtype
        return FLOAT if layout.is_carried else dtype.numpy_dtype

    def load(
        self, role: str, shape: Shape, dtype: np.dtype[Any], *, axes: Axes | None = None
    ) -> Arg:
        """The operand's elements as they lie in the buffer, in this shape."""
        walk = self.axes(role) if axes is None else axes
        strides = split_axes(walk, shape)
        if strides is not None:
            return self.view(role, shape, strides, dtype)
        natural = natural_shape(walk)
        strides = split_axes(walk, natural)
        assert strides is not None
        whole = self.scratch(shape, dtype)
        self.copy(whole.reshape(natural), self.view(role, natural, strides, dtype))
        return whole

    def save(
        self,
        role: str,
        values: Arg,
        shape: Shape,
        dtype: np.dtype[Any],
        *,
        axes: Axes | None = None,
    ) -> None:
        """Assign values of this shape to the operand's elements, with NumPy's cast."""
        walk = self.axes(role) if axes is None else axes
        strides = split_axes(walk, shape)
        if strides is not None:
            self.copy(self.view(role, shape, strides, dtype), values)
            return
        natural = natural_shape(walk)
        strides = split_axes(walk, natural)
        assert strides is not None
        if isinstance(values, Hole) or not values.flags.c_contiguous or values.shape != shape:
            whole = self.scratch(shape, dtype)
            self.copy(whole, values)
            values = whole
        self.copy(self.view(role, natural, strides, dtype), values.reshape(natural))

    # float32 in, float32 out.

    def read(self, role: str, shape: Shape, *, axes: Axes | None = None) -> Arg:
        """The operand's values as float32 in this shape; must not be written."""
        operand = self.operand(role)
        self._require_values(role)
        stored = self.load(role, shape, self.stored_dtype(role), axes=axes)
        if self.layout(role).is_carried or operand.dtype is DType.FLOAT32:
            return stored
        values = self.scratch(shape)
        if operand.dtype.is_integer:
            if operand.dtype.itemsize == WORD_BYTES:
                self.check(_check_exact, role, self.call.declaration.name, stored)
            self.copy(values, stored)
        else:
            self.step(decode, stored, operand.dtype, values)
        return values

    def read_column(self, role: str, ndim: int) -> Arg:
        """A scalar operand: an immediate, or one value for each partition with `ndim` axes."""
        if self.has_number(role):
            return self.number(role)
        if not self.has_tensor(role):
            refuse(f"`{self.call.declaration.name}` without `{role}`")
        partitions = self.operand(role).pattern.partitions
        return self.read(role, (partitions,) + (1,) * (ndim - 1))

    def target(self, role: str, shape: Shape) -> Arg:
        """Where to compute a result for `store`: the destination itself if it is float32."""
        if self.operand(role).dtype is DType.FLOAT32:
            strides = split_axes(self.axes(role), shape)
            if strides is not None:
                return self.view(role, shape, strides, FLOAT)
        return self.scratch(shape)

    def store(self, role: str, values: Arg, shape: Shape, *, is_exact: bool = False) -> None:
        """Round float32 values to the destination; `is_exact` says that its format holds them."""
        self._require_values(role)
        dtype = self.operand(role).dtype
        largest = largest_value(dtype)
        if largest is not None and dtype.itemsize == 1 and not is_exact:
            label = f"a value for `{role}` of `{self.call.declaration.name}`, {dtype.value},"
            self.check(_check_overflow, label, largest, values)
        if dtype is DType.FLOAT32:
            if not self._is_view_of(role, values):
                self.save(role, values, shape, FLOAT)
        elif dtype.is_integer:
            self._store_integer(role, values, shape)
        elif not self.layout(role).is_carried:
            self._store_bytes(role, values, shape)
        elif is_exact or not self.layout(role).is_precise:
            self.save(role, values, shape, FLOAT)
        else:
            self._store_carried(role, values, shape)

    def _require_values(self, role: str) -> None:
        dtype, op = self.operand(role).dtype, self.call.declaration.name
        if dtype.is_packed:
            refuse(f"arithmetic on, or a cast of, {dtype.value} (`{role}` of `{op}`)")

    def _is_view_of(self, role: str, values: Arg) -> bool:
        if not isinstance(values, Hole) or values.kind is not HoleKind.VIEW:
            return False
        return self._views[values.index].position == self._positions[role]

    def _work(self, shape: Shape) -> tuple[Array, Array]:
        return self.scratch(shape), self.scratch(shape)

    def _store_carried(self, role: str, values: Arg, shape: Shape) -> None:
        dtype = self.operand(role).dtype
        strides = split_axes(self.axes(role), shape)
        if strides is not None:
            out: Arg = self.view(role, shape, strides, FLOAT)
            self.step(round_float, values, dtype, out, self._work(shape))
        else:
            out = self.scratch(shape)
            self.step(round_float, values, dtype, out, self._work(shape))
            self.save(role, out, shape, FLOAT)

    def _store_bytes(self, role: str, values: Arg, shape: Shape) -> None:
        dtype = self.operand(role).dtype
        rounded, stored = self.scratch(shape), self.scratch(shape, dtype.numpy_dtype)
        self.step(round_float, values, dtype, rounded, self._work(shape))
        self.step(encode, rounded, dtype, stored)
        self.save(role, stored, shape, dtype.numpy_dtype)

    def _store_integer(self, role: str, values: Arg, shape: Shape) -> None:
        dtype = self.operand(role).dtype
        strides = split_axes(self.axes(role), shape)
        if strides is not None:
            out: Arg = self.view(role, shape, strides, dtype.numpy_dtype)
            self.step(round_integer, values, dtype, out, self.scratch(shape))
        else:
            out = self.scratch(shape, dtype.numpy_dtype)
            self.step(round_integer, values, dtype, out, self.scratch(shape))
            self.save(role, out, shape, dtype.numpy_dtype)

    # Moving bits.

    def move(self, dst: str, src: str, *, shape: Shape, src_axes: Axes | None = None) -> None:
        """Copy `src` to `dst`: bits where the dtypes are equal, else through float32."""
        walk = self.axes(src) if src_axes is None else src_axes
        same = self.operand(dst).dtype is self.operand(src).dtype
        if same and self._moves_bits(dst, src):
            dtype = self.stored_dtype(dst)
            self.save(dst, self.load(src, shape, dtype, axes=walk), shape, dtype)
            return
        values = self.read(src, shape, axes=walk)
        if self.operand(dst).dtype.is_float:
            self.store(dst, values, shape, is_exact=same)
        else:
            self.store(dst, values, shape)

    def _moves_bits(self, dst: str, src: str) -> bool:
        is_integer = self.operand(dst).dtype.is_integer
        return is_integer or self.layout(dst).is_carried == self.layout(src).is_carried

    def bits(self, role: str, shape: Shape) -> Arg:
        """An integer operand as unsigned numbers of its own size."""
        return self.load(role, shape, self._unsigned(role))

    def save_bits(self, role: str, values: Arg, shape: Shape) -> None:
        """Write unsigned numbers to an integer operand: zeros above, or high bits dropped."""
        self.save(role, values, shape, self._unsigned(role))

    def _unsigned(self, role: str) -> np.dtype[Any]:
        dtype = self.operand(role).dtype
        if dtype.is_float:
            refuse(f"a bitwise operator of `{self.call.declaration.name}` on {dtype.value}")
        return UNSIGNED[dtype.itemsize]


def _check_exact(role: str, op: str, stored: Array) -> Diagnostic | None:
    low, high = int(stored.min()), int(stored.max())
    largest = max(abs(low), abs(high))
    if largest <= EXACT_INT_MAX:
        return None
    return Diagnostic(
        code="NK504",
        severity=Severity.WARNING,
        what=f"an integer in `{role}` of `{op}`, which computes in float32,",
        got=str(largest),
        limit=str(EXACT_INT_MAX),
        hint="use bitwise operators, split the number into 16-bit halves,"
        " or `nisa.tensor_tensor` on 32-bit integer tiles in SBUF, which is exact; a constant goes"
        " into a tile with `nisa.memset(dst=..., value=...)`",
    )


def _check_overflow(label: str, largest: float, values: Array) -> Diagnostic | None:
    sizes = np.abs(values)
    found = float(np.fmax.reduce(sizes, None, where=np.isfinite(sizes), initial=0.0))
    if found <= largest:
        return None
    return Diagnostic(
        code="NK505",
        severity=Severity.WARNING,
        what=label,
        got=f"{found:.6g}",
        limit=f"{largest:.6g}",
        hint="scale the tile by its largest magnitude first, or use bfloat16",
    )
