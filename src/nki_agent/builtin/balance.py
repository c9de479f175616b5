"""Spreads the steps of one tile over the engines, and finds where one would wait for another.

Law: only the engine of a step changes, or its form where another engine has the same result in
float32. The estimates are for choosing; the cost model has the last word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from nki_agent.builtin.choices import Phases
from nki_agent.builtin.tile_steps import (
    Accumulate,
    Activate,
    AddDown,
    AddUp,
    AffineSelect,
    Combine,
    Copy,
    CopyWhere,
    Cut,
    Fill,
    Invert,
    Iota,
    Kind,
    Load,
    Number,
    Operand,
    Reduce,
    Scalar,
    Scale,
    ScaleCombine,
    Scan,
    Step,
    Store,
    Tile,
    step_reads,
    step_writes,
)
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine

GEN3 = 3
SHORT_BYTES = 2
FAST = frozenset({DType.BFLOAT16, DType.FLOAT16})
"""What the Vector Engine's faster modes take."""
PAIR = 2.0
"""Passes of two operands from SBUF that share the port."""
DIVISION = 8.0
"""Passes of an exact reciprocal."""
GPSIMD_OPS = frozenset({"add", "subtract", "multiply"})
_COPY = "copy"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Times of steps on a tile of `cols` columns."""

    chip: ChipSpec
    cols: int
    num_sets: int = 1
    """Shape sets that a number has a value for."""
    is_packed: bool = False
    """A partition holds several rows: no row sums on the Scalar Engine."""
    shares: bool = True
    """Whether engines share the steps; else each has the engine that is its by default."""

    def engine(self, step: Step) -> Engine:
        """The engine that runs a step."""
        match step:
            case Load() | Store() | Cut():
                return Engine.DMA
            case Activate():
                return Engine.SCALAR
            case Combine() | Copy() | Fill():
                return step.engine or self._default(step)
            case Iota() | AffineSelect():
                return Engine.GPSIMD
            case AddUp() | AddDown():
                return Engine.TENSOR
            case Scale() if any(s.op == "power" for s in step.scalars):
                return Engine.GPSIMD
            case (
                Scale() | ScaleCombine() | Reduce() | Invert() | CopyWhere() | Scan() | Accumulate()
            ):
                return Engine.VECTOR

    @staticmethod
    def _default(step: Combine | Copy | Fill) -> Engine:
        is_power = isinstance(step, Combine) and step.op == "power"
        return Engine.GPSIMD if is_power else Engine.VECTOR

    def _cycles(self, step: Step) -> float:
        return max(float(self.chip.min_instruction_cycles), self._passes(step) * self._width(step))

    def interval_ns(self, step: Step) -> float:
        """Time after which the engine may begin its next step, if that need not wait."""
        chip, cycles = self.chip, self._cycles(step)
        if self.engine(step) in (Engine.VECTOR, Engine.SCALAR):
            cycles = max(cycles, chip.small_instruction_cycles)
            is_vector = self.engine(step) is Engine.VECTOR
            return cycles / (chip.vector_clock_ghz if is_vector else chip.scalar_clock_ghz)
        return self.step_ns(step)

    def step_ns(self, step: Step) -> float:
        """Time of a step on its engine, until its result is there."""
        chip = self.chip
        cycles = self._cycles(step)
        match self.engine(step):
            case Engine.SCALAR:
                return (cycles + chip.scalar_overhead_cycles) / chip.scalar_clock_ghz
            case Engine.GPSIMD:
                return (cycles + chip.gpsimd_overhead_cycles) / chip.gpsimd_clock_ghz
            case Engine.VECTOR | Engine.TENSOR | Engine.SYNC:
                return (cycles + chip.vector_overhead_cycles) / chip.vector_clock_ghz
            case Engine.DMA:
                return 0.0

    def _width(self, step: Step) -> int:
        tiles = [*step_writes(step), *step_reads(step)]
        return self.cols if any(tile.is_wide for tile in tiles) else 1

    def _passes(self, step: Step) -> float:
        tiles = [*step_writes(step), *step_reads(step)]
        # Columns that are repeated for all rows of a partition are an operand as any other.
        streams = [t for t in tiles if t.is_wide or (self.is_packed and t.kind is Kind.ROW)]
        short = all(t.dtype in FAST for t in streams)
        fast = short and self.engine(step) is Engine.VECTOR
        match step:
            case CopyWhere():
                is_selection = step.otherwise is not None
                return 1.0 if is_selection and step.predicate.in_psum else PAIR
            case Invert():
                return DIVISION
            case Combine() | ScaleCombine():
                in_psum = any(tile.in_psum for tile in step_reads(step))
                if in_psum:
                    return 1.0
                return 1.0 / self.chip.vector_half_fast_factor if fast else PAIR
            case Scan():
                return PAIR
            case AddUp() | AddDown():
                # Ones and zeros take half of the passes.
                share = self.chip.vector_clock_ghz / self.chip.tensor_clock_ghz
                return self.chip.matmul_fp32_passes / 2 * share
            case Scale() | Copy():
                return 1.0 / self.chip.vector_fast_factor if fast else 1.0
            case _:
                return 1.0

    def loads(self, steps: Sequence[Step]) -> dict[Engine, float]:
        """Busy time of each engine."""
        found: dict[Engine, float] = {}
        for step in steps:
            engine = self.engine(step)
            found[engine] = found.get(engine, 0.0) + self.step_ns(step)
        return found


def balance(
    steps: Sequence[Step],
    estimate: Estimate,
    *,
    floor_ns: float,
    scratch: Mapping[str, int],
    busy: Mapping[Engine, float] | None = None,
) -> list[Step]:
    """The choice of engines whose longest queue is shortest, then whose work is least.

    `floor_ns` is the time that DMA needs for the tile: engines faster than that gain nothing.
    `busy` is what engines have to do for the tile beside these steps.
    """
    if not estimate.shares:
        return list(steps)
    base = dict(busy or {})
    names = dict(scratch)
    negated = {s.data: s.dst for s in steps if isinstance(s, Scale) and _negates(s)}
    forms = [[[step], *_alternatives(step, estimate, names, negated)] for step in steps]
    open_steps = [index for index, form in enumerate(forms) if len(form) > 1][:OPEN_STEPS_MAX]
    best: list[Step] = list(steps)
    best_cost: tuple[float, int, float] | None = None
    for choice in product(*(range(len(forms[index])) for index in open_steps)):
        picked = dict(zip(open_steps, choice, strict=True))
        made = [step for i, form in enumerate(forms) for step in form[picked.get(i, 0)]]
        loads = base | {
            engine: base.get(engine, 0.0) + ns for engine, ns in estimate.loads(made).items()
        }
        changes = sum(1 for number in choice if number)
        cost = (max((floor_ns, *loads.values())), changes, sum(loads.values()))
        if best_cost is None or cost < best_cost:
            best, best_cost = made, cost
    return best


OPEN_STEPS_MAX = 8
"""Steps whose engine is chosen; all combinations are tried."""


def _alternatives(
    step: Step, estimate: Estimate, names: dict[str, int], negated: Mapping[Tile, Tile]
) -> list[list[Step]]:
    match step:
        case Combine(engine=None) if _is_for_gpsimd(step, estimate.chip):
            return [[replace(step, engine=Engine.GPSIMD)]]
        case Copy(engine=None) if step.dst.is_wide:
            return [[Activate(dst=step.dst, function=_COPY, data=step.src)]]
        case Scale() if step.dst.is_wide:
            made = _as_activation(step, estimate, names, negated)
            return [] if made is None else [made]
        case Reduce(op="add", negate=False) if not (step.data.in_psum or estimate.is_packed):
            scratch = Tile(
                name=fresh(names, "scratch"),
                kind=Kind.FULL,
                dtype=step.data.dtype if _is_short(step.data) else DType.FLOAT32,
                level=step.dst.level,
            )
            return [[Activate(dst=scratch, function=_COPY, data=step.data, sums=step.dst)]]
        case _:
            return []


def _is_short(tile: Tile) -> bool:
    return tile.dtype.itemsize <= SHORT_BYTES


def _is_for_gpsimd(step: Combine, chip: ChipSpec) -> bool:
    """GpSimd reaches no PSUM; before NeuronCore-v3 it and the Vector Engine share SBUF's port."""
    in_psum = any(tile.in_psum for tile in (step.first, step.second, step.dst))
    return chip.generation >= GEN3 and step.op in GPSIMD_OPS and not in_psum and step.dst.is_wide


def fresh(names: dict[str, int], wanted: str) -> str:
    """A name that is not taken."""
    count = names.get(wanted, 0) + 1
    names[wanted] = count
    return wanted if count == 1 else f"{wanted}_{count}"


def _as_activation(
    step: Scale, estimate: Estimate, names: dict[str, int], negated: Mapping[Tile, Tile]
) -> list[Step] | None:
    """(x * s + b) on the Scalar Engine; (x - m) * r needs the column -m * r first."""
    match step.scalars:
        case (Scalar(op="multiply") as only,):
            return [_affine(step, scale=only.operand)]
        case (Scalar(op="add") as only,) if _bias_fits(only, estimate.chip):
            return [_affine(step, bias=only.operand)]
        case (Scalar(op="multiply") as first, Scalar(op="add") as second):
            fits = _bias_fits(second, estimate.chip)
            return [_affine(step, scale=first.operand, bias=second.operand)] if fits else None
        case (Scalar(op="maximum", operand=tuple() as floor),) if not any(floor):
            return [Activate(dst=step.dst, function="relu", data=step.data)]
        case (Scalar(op="add") as first, Scalar(op="maximum", operand=tuple() as floor)):
            if any(floor) or not _bias_fits(first, estimate.chip):
                return None
            bias = first.operand
            return [Activate(dst=step.dst, function="relu", data=step.data, bias=bias)]
        case (
            Scalar(op="subtract", reverse=False, operand=Tile() as shift),
            Scalar(op="multiply", operand=Tile() as scale),
        ):
            name = fresh(names, "shift")
            level = step.dst.level
            column = Tile(name=name, kind=Kind.ROW, dtype=DType.FLOAT32, level=level)
            minus: Number = (-1.0,) * estimate.num_sets
            scalars: tuple[Scalar, ...] = (Scalar(op="multiply", operand=scale),)
            if shift not in negated:
                scalars += (Scalar(op="multiply", operand=minus),)
            return [
                Scale(dst=column, data=negated.get(shift, shift), scalars=scalars),
                _affine(step, scale=scale, bias=column),
            ]
        case _:
            return None


def _affine(step: Scale, *, scale: Operand | None = None, bias: Operand | None = None) -> Activate:
    return Activate(dst=step.dst, function=_COPY, data=step.data, scale=scale, bias=bias)


def _negates(step: Scale) -> bool:
    match step.scalars:
        case (Scalar(op="multiply", reverse=False, operand=tuple() as number),):
            return not step.dst.is_wide and all(n == -1.0 for n in number)
        case _:
            return False


def _bias_fits(scalar: Scalar, chip: ChipSpec) -> bool:
    return isinstance(scalar.operand, Tile) or chip.generation >= GEN3


def find_cuts(steps: Sequence[Step], estimate: Estimate, phases: Phases) -> tuple[int, ...]:
    """Where an engine would wait for another that waits for its own earlier step.

    Engines work through their instructions in order. If tile i's later steps are issued after tile
    i + 1's earlier ones, nobody waits; a cut says where "later" begins.
    """
    at_every_turn = phases is Phases.EVERY
    cuts: list[int] = []
    start = 0
    # Engines that each tile's value passed through since the last cut, in order of first use.
    history: dict[str, tuple[Engine, ...]] = {}
    for index, step in enumerate(steps):
        engine = estimate.engine(step)
        paths = [history.get(tile.name, ()) for tile in step_reads(step)]
        waits = any(
            engine in path[:-1] or (at_every_turn and path and path[-1] is not engine)
            for path in paths
        )
        if engine is not Engine.DMA and waits:
            cuts.append(index)
            start = index
            history = {}
            paths = []
        longest = max(paths, key=len, default=())
        if engine is Engine.DMA:
            continue
        path = longest if longest[-1:] == (engine,) else (*longest, engine)
        for tile in step_writes(step):
            history[tile.name] = path
    assert start <= len(steps)
    return tuple(cuts)
