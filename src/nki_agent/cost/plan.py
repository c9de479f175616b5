"""What every instruction of one signature costs and touches; made once a signature.

Law: a plan holds all that the scheduler reads in its loop, so the length of a Program does not
multiply the cost of pricing. Which DMA engines a transfer uses is kept as lanes: engines that every
transfer treats alike are one lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from nki_agent.chip.spec import ChipSpec
from nki_agent.cost.durations import clock_ghz, shared_ports, time_call
from nki_agent.cost.transfer import Moves, Transfer, find_sources, plan_transfer
from nki_agent.isa.declaration import Call
from nki_agent.isa.enums import Engine, Memory
from nki_agent.isa.remembered import remember
from nki_agent.isa.signature import Operand, Signature
from nki_agent.isa.table import TABLE
from nki_agent.program.line import MEETINGS
from nki_agent.program.validate import read_positions, written_positions


class Queue(IntEnum):
    """What runs in order: the engines, and the DMA queues of sync, one for each direction.

    A transfer that waits holds back those behind it in its queue. Sync issues one at a time. By
    default loads, stores and copies wait apart, as AWS's compiler arranges it; a DMA with `engine=`
    waits among that engine's instructions.
    """

    TENSOR = 0
    VECTOR = 1
    SCALAR = 2
    GPSIMD = 3
    LOAD = 4
    STORE = 5
    HBM_COPY = 6
    SBUF_COPY = 7
    SYNC = 8

    @property
    def engine(self) -> Engine:
        """The engine that issues from it."""
        match self:
            case Queue.TENSOR:
                return Engine.TENSOR
            case Queue.VECTOR:
                return Engine.VECTOR
            case Queue.SCALAR:
                return Engine.SCALAR
            case Queue.GPSIMD:
                return Engine.GPSIMD
            case Queue.LOAD | Queue.STORE | Queue.HBM_COPY | Queue.SBUF_COPY | Queue.SYNC:
                return Engine.SYNC


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One signature, priced. Places count tensor operands."""

    engine: Engine
    queue: int
    """A `Queue`, as the plain number that the scheduler's lists are indexed by."""
    interval_ns: float
    """From its start to that of the next in its queue."""
    latency_ns: float
    """From its start to its result; for a DMA to its first byte."""
    data_ns: float
    """Time of the engine's data path alone; 0 for a DMA."""
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    num_tensors: int
    ports: tuple[Memory, ...] = ()
    transfer: Transfer | None = None
    lanes: tuple[tuple[int, float], ...] = ()
    """The lanes of DMA engines that it holds, each with the time."""
    meets: bool = False
    """Whether it waits for the other core."""


def ordered_writes(signature: Signature) -> tuple[int, ...]:
    """Places of the tensors that it writes; a barrier counts as a write of the tensor it names.

    So reads after the barrier wait for it, and it waits for the writes before it.
    """
    return (0,) if signature.op == "core_barrier" else written_positions(signature)


def make_plans(
    signatures: Sequence[Signature],
    chip: ChipSpec,
    moved: Sequence[tuple[int, Moves]] = (),
) -> tuple[Plan, ...]:
    """Price every signature of a Program, then those with operands that move at run time."""
    plans = tuple([_price(s, chip) for s in signatures])
    for index, moves in moved:
        signature = signatures[index]
        plans += (_make_plan(Call(TABLE[signature.op], signature, chip), moves),)
    lanes = find_lanes(plans)
    return tuple(
        p if p.transfer is None else replace(p, lanes=_held(p.transfer, lanes)) for p in plans
    )


@remember
def _price(signature: Signature, chip: ChipSpec) -> Plan:
    return _make_plan(Call(TABLE[signature.op], signature, chip))


def _make_plan(call: Call, moves: Moves = ()) -> Plan:
    signature = call.signature
    reads, writes = read_positions(signature), ordered_writes(signature)
    num_tensors = sum(not o.is_immediate for o in signature.operands)
    if call.declaration.cycles is not None:
        time = time_call(call)
        if time.engine is Engine.TENSOR:
            # PSUM adds as results arrive: a matmul onto a matmul's bank waits for its turn only.
            reads = tuple(p for p in reads if p not in writes)
        return Plan(
            engine=time.engine,
            queue=_engine_queue(time.engine),
            interval_ns=time.interval_ns,
            latency_ns=time.latency_ns,
            data_ns=time.data_ns,
            reads=reads,
            writes=writes,
            num_tensors=num_tensors,
            ports=shared_ports(time.engine, call),
            meets=signature.op in MEETINGS,
        )
    transfer, chip = plan_transfer(call, moves), call.chip
    default = transfer.issuer is Engine.SYNC
    return Plan(
        engine=Engine.DMA,
        queue=_direction(call) if default else _engine_queue(transfer.issuer),
        interval_ns=chip.min_instruction_cycles / clock_ghz(transfer.issuer, chip)
        + transfer.software_ns,
        latency_ns=chip.dma_startup_ns + transfer.software_ns,
        data_ns=0.0,
        reads=reads,
        writes=writes,
        num_tensors=num_tensors,
        transfer=transfer,
        meets=signature.op in MEETINGS,
    )


def _engine_queue(engine: Engine) -> Queue:
    match engine:
        case Engine.TENSOR:
            return Queue.TENSOR
        case Engine.VECTOR:
            return Queue.VECTOR
        case Engine.SCALAR:
            return Queue.SCALAR
        case Engine.GPSIMD:
            return Queue.GPSIMD
        case Engine.SYNC | Engine.DMA:
            return Queue.SYNC


def _direction(call: Call) -> Queue:
    into = _is_on_chip(call.get("dst"))
    out_of = all(_is_on_chip(o) for o in find_sources(call))
    if into:
        return Queue.SBUF_COPY if out_of else Queue.LOAD
    return Queue.STORE if out_of else Queue.HBM_COPY


def _is_on_chip(operand: Operand) -> bool:
    return operand.memory is not None and operand.memory.is_on_chip


def find_lanes(plans: Sequence[Plan]) -> tuple[tuple[int, ...], ...]:
    """DMA engines in groups that every transfer holds for equally long."""
    columns = list(zip(*(p.transfer.engine_ns for p in plans if p.transfer), strict=True))
    groups: dict[tuple[float, ...], list[int]] = {}
    for engine, column in enumerate(columns):
        groups.setdefault(column, []).append(engine)
    return tuple(tuple(group) for group in groups.values())


def _held(transfer: Transfer, lanes: Sequence[Sequence[int]]) -> tuple[tuple[int, float], ...]:
    times = [(lane, transfer.engine_ns[engines[0]]) for lane, engines in enumerate(lanes)]
    return tuple((lane, ns) for lane, ns in times if ns)
