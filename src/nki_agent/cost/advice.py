"""Where to look next: what would shorten a timeline, in concrete words.

Law: each line names a place, a figure and a change, and concerns what bounds the timeline; the line
that concerns the most time comes first. A line is a suggestion from the model, not a promise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from nki_agent.base.diagnostic import clean
from nki_agent.chip.spec import ChipSpec
from nki_agent.cost.bound import Bound
from nki_agent.cost.critical import LimitKind
from nki_agent.cost.plan import Plan
from nki_agent.cost.timeline import Timeline
from nki_agent.isa.enums import Engine
from nki_agent.isa.signature import Signature
from nki_agent.program.records import Init, Instruction, Program

LINES_MAX = 3
US_NS = 1000
MB = 1e6
REPEATS_MIN = 1.5
"""Times that a tensor is read from which it is worth a line."""
SHARE_MIN = 0.05
"""Share of the latency under which nothing is worth a line."""
OVERHEAD_MIN = 0.25
"""Share of an instruction that is fixed overhead from which it is too small."""
HALF = 0.5
"""An engine with work for less of the time can take over some of another's."""


@dataclass(frozen=True, slots=True)
class _Line:
    engine: Engine | None
    """Whose work it shortens; None for waits."""
    ns: float
    """Time that the advice concerns."""
    text: str


def advise(timeline: Timeline, program: Program, bound: Bound | None) -> tuple[str, ...]:
    """At most three lines of advice."""
    if not timeline.latency_ns:
        return ()
    facts = _Facts(timeline, program)
    lines = [
        *_short_descriptors(facts),
        *_traffic(facts, bound),
        *_narrow_transfers(facts),
        *_thin_transfers(facts),
        *_small_instructions(facts),
        *_slow_matmuls(facts),
        *_vector_to_scalar(facts),
        *_no_overlap(facts),
    ]
    waits = timeline.limit.kind is LimitKind.WAITS
    worth = [
        line
        for line in lines
        if line.ns >= SHARE_MIN * timeline.latency_ns
        and (waits or (line.engine is not None and line.engine.value == timeline.limit.kind.value))
    ]
    worth.sort(key=lambda line: -line.ns)
    return tuple(line.text for line in worth[:LINES_MAX])


@dataclass(frozen=True, slots=True)
class _Row:
    """The instructions of one plan."""

    signature: Signature
    plan: Plan
    count: int
    place: str
    """`file:line` of the first."""


class _Facts:
    """What the lines are made from."""

    def __init__(self, timeline: Timeline, program: Program) -> None:
        self.timeline, self.program = timeline, program
        plan_of, weights = timeline.plan_of.tolist(), timeline.weights.tolist()
        self.body = list(zip(timeline.instructions, plan_of, weights, strict=True))
        counts = Counter[int]()
        firsts: dict[int, Instruction] = {}
        for node, plan, weight in self.body:
            counts[plan] += weight
            firsts.setdefault(plan, node)
        self.rows = [
            _Row(
                program.signatures[firsts[index].signature],
                timeline.plans[index],
                count,
                self.place(firsts[index].stack),
            )
            for index, count in counts.items()
        ]

    def place(self, stack_id: int) -> str:
        """`file:line` of a stack."""
        stack = self.program.stack(stack_id)
        return str(stack[-1]) if stack else "the kernel"


def _short_descriptors(facts: _Facts) -> Iterator[_Line]:
    efficient = facts.timeline.chip.dma_efficient_descriptor_bytes
    for place in facts.timeline.short_descriptors:
        text = (
            f"{facts.place(place.stack)}: {place.transfers} `{place.op}` of"
            f" {place.mean_bytes:.0f}-byte descriptors hold the DMA engines"
            f" {place.held_ns / US_NS:.1f} µs: move longer contiguous rows in one call"
        )
        yield _Line(Engine.DMA, place.held_ns * (1 - place.mean_bytes / efficient), text)


@dataclass(slots=True)
class _Traffic:
    """HBM bytes of one tensor."""

    stack: int
    read_bytes: int = 0
    written_bytes: int = 0
    num_reads: int = 0


def _traffic(facts: _Facts, bound: Bound | None) -> Iterator[_Line]:
    """The tensor that moves the most bytes beyond once in, or once out."""
    excess, worst, traffic = _worst_traffic(facts)
    if traffic is None:
        return
    timeline, tensor = facts.timeline, facts.program.tensors[worst]
    moved = timeline.dma.read_bytes + timeline.dma.written_bytes
    total = ""
    if bound is not None and bound.work.hbm_bytes:
        total = f"DMA moves {moved / bound.work.hbm_bytes:.1f}x the minimal bytes, "
    times = traffic.read_bytes / tensor.partition_bytes
    step = "keep it in SBUF"
    if traffic.written_bytes and traffic.read_bytes:
        what = f"{excess / MB:.1f} MB of `{clean(tensor.name)}` go through HBM and back"
    elif times >= REPEATS_MIN and traffic.num_reads == 1:
        what = f"one broadcast reads `{clean(tensor.name)}` {times:.0f} times"
        step = "load it once and spread it on chip, by a matmul with a row of ones"
    elif times >= REPEATS_MIN:
        what = f"`{clean(tensor.name)}` is read {times:.1f} times"
    else:
        return
    text = f"{facts.place(traffic.stack)}: {total}{what}: {step}"
    yield _Line(Engine.DMA, timeline.busy_ns[Engine.DMA] * excess / moved, text)


def _worst_traffic(facts: _Facts) -> tuple[int, int, _Traffic | None]:
    """Excess bytes, tensor and traffic of the tensor with the most excess."""
    program, plans = facts.program, facts.timeline.plans
    known: dict[int, _Traffic] = {}
    for node, plan, weight in facts.body:
        transfer = plans[plan].transfer
        if transfer is None:
            continue
        written, read = node.tensors[0], node.tensors[-1]
        if transfer.read_bytes:
            traffic = known.setdefault(read, _Traffic(node.stack))
            traffic.read_bytes += weight * transfer.read_bytes
            traffic.num_reads += weight
        if transfer.written_bytes:
            entry = known.setdefault(written, _Traffic(node.stack))
            entry.written_bytes += weight * transfer.written_bytes
    results = {result.tensor for result in program.results}
    best: tuple[int, int, _Traffic | None] = (0, 0, None)
    for index, entry in known.items():
        tensor = program.tensors[index]
        once = 0
        if tensor.init in (Init.ARGUMENT, Init.CONSTANT):
            once += min(entry.read_bytes, tensor.partition_bytes)
        if index in results or tensor.init is Init.ARGUMENT:
            once += min(entry.written_bytes, tensor.partition_bytes)
        excess = entry.read_bytes + entry.written_bytes - once
        if excess > best[0]:
            best = (excess, index, entry)
    return best


def _narrow_transfers(facts: _Facts) -> Iterator[_Line]:
    """Transfers of few partitions, which use few DMA engines."""
    for row in facts.rows:
        transfer = row.plan.transfer
        if transfer is None or transfer.num_engines > HALF * len(transfer.engine_ns):
            continue
        held = max(transfer.engine_ns)
        spread = sum(transfer.engine_ns) / len(transfer.engine_ns)
        text = (
            f"{row.place}: {row.count} `{row.signature.op}` use {transfer.num_engines} of"
            f" {len(transfer.engine_ns)} DMA engines: move tiles of"
            f" {facts.timeline.chip.partitions} partitions"
        )
        yield _Line(Engine.DMA, row.count * (held - spread), text)


def _thin_transfers(facts: _Facts) -> Iterator[_Line]:
    """Transfers whose fixed time keeps them from the effective rate."""
    chip = facts.timeline.chip
    saving_ns = 1 / chip.dma_engine_bytes_per_ns - 1 / chip.dma_engine_peak_bytes_per_ns
    enough = chip.dma_transfer_ns / saving_ns / (chip.partitions / chip.dma_engines_per_core)
    for row in facts.rows:
        transfer = row.plan.transfer
        if transfer is None or transfer.descriptor_bytes < chip.dma_efficient_descriptor_bytes:
            continue
        least = transfer.payload_bytes / transfer.num_engines / chip.dma_engine_bytes_per_ns
        lost = max(transfer.engine_ns) - least
        share = transfer.payload_bytes / transfer.descriptors
        text = (
            f"{row.place}: {row.count} `{row.signature.op}` of {share:.0f} contiguous bytes reach"
            f" {_percent(least, max(transfer.engine_ns))} of the DMA rate:"
            f" move {_round_up(enough)} bytes or more of each partition at a time"
        )
        yield _Line(Engine.DMA, row.count * lost, text)


def _round_up(num_bytes: float) -> int:
    """The next power of two."""
    return 1 << (int(num_bytes) - 1).bit_length()


def _small_instructions(facts: _Facts) -> Iterator[_Line]:
    """For each engine the instructions that spend the most on fixed overhead."""
    for engine in (Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD):
        rows = [row for row in facts.rows if row.plan.engine is engine]
        small = [row for row in rows if _overhead_ns(row) >= OVERHEAD_MIN * row.plan.latency_ns]
        if not small:
            continue
        worst = max(small, key=lambda row: row.count * _overhead_ns(row))
        elems = max(o.pattern.free_elems for o in worst.signature.operands)
        data_ns = sum(row.count * row.plan.data_ns for row in rows)
        text = (
            f"{worst.place}: {worst.count} `{worst.signature.op}` of {elems} elements a partition"
            f" are {_percent(_overhead_ns(worst), worst.plan.latency_ns)} fixed overhead on the"
            f" {engine.value} engine: use larger free sizes"
        )
        yield _Line(engine, facts.timeline.busy_ns[engine] - data_ns, text)


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %"


def _overhead_ns(row: _Row) -> float:
    return row.plan.latency_ns - row.plan.data_ns


def _slow_matmuls(facts: _Facts) -> Iterator[_Line]:
    """Where the Tensor Engine decides: several passes, and tiles that leave the array unused."""
    if facts.timeline.utilisation(Engine.TENSOR) < HALF:
        return
    for row in facts.rows:
        if row.signature.op == "nc_matmul":
            yield from _slow_matmul(row, facts.timeline.chip)


def _slow_matmul(row: _Row, chip: ChipSpec) -> Iterator[_Line]:
    stationary, moving = row.signature.get("stationary"), row.signature.get("moving")
    columns_ns = moving.pattern.free_elems / chip.tensor_clock_ghz
    tile = (stationary.pattern.partitions, stationary.pattern.free_elems)
    used = tile[0] * tile[1] / (chip.partitions * chip.matmul_stationary_free_max)
    head = f"{row.place}: {row.count} `nc_matmul`"
    whole_ns = row.count * row.plan.interval_ns
    if used <= HALF:
        share = _percent(used, 1)
        text = f"{head} use {share} of the array (stationary {list(tile)}): fill 128 by 128"
        yield _Line(Engine.TENSOR, whole_ns * (1 - used), text)
    if columns_ns <= HALF * row.plan.interval_ns:
        if row.plan.data_ns * chip.tensor_clock_ghz > chip.min_instruction_cycles:
            text = (
                f"{head} in {moving.dtype.value} take several passes: cast to bfloat16 if allowed"
            )
        else:
            text = f"{head} move only {moving.pattern.free_elems} columns: move up to 512 at a time"
        yield _Line(Engine.TENSOR, whole_ns - row.count * columns_ns, text)


def _vector_to_scalar(facts: _Facts) -> Iterator[_Line]:
    """Work of a busy Vector Engine that an idle Scalar Engine can do."""
    timeline = facts.timeline
    busy = timeline.limit.kind is LimitKind.VECTOR
    if not busy or timeline.utilisation(Engine.SCALAR) > HALF:
        return
    for row in facts.rows:
        if row.plan.engine is Engine.VECTOR and _scalar_can(row.signature):
            text = (
                f"{row.place}: the vector engine is the bottleneck and the scalar engine is idle"
                f" {_percent(1 - timeline.utilisation(Engine.SCALAR), 1)} of the time: do the"
                f" {row.count}"
                f" `{row.signature.op}` in `nisa.activation(..., scale=, bias=)`"
            )
            yield _Line(Engine.VECTOR, row.count * row.plan.interval_ns, text)


def _scalar_can(signature: Signature) -> bool:
    if signature.op == "tensor_scalar":
        return {signature.attribute(name) for name in ("op0", "op1")} <= {"multiply", "add", None}
    return signature.op == "tensor_copy"


def _no_overlap(facts: _Facts) -> Iterator[_Line]:
    """A timeline in which everything waits for something else."""
    timeline = facts.timeline
    if timeline.limit.kind is LimitKind.WAITS and timeline.num_instructions > 1:
        text = (
            "loads, engines and stores wait for each other: use several tiles, each with its own"
            " buffers, so that they overlap"
        )
        yield _Line(None, timeline.latency_ns - max(timeline.busy_ns.values()), text)
