"""What a body compiles to: straight calls, loops around blocks, and where cores or ranks meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nki_agent.isa.declaration import Call
from nki_agent.program.records import Loop
from nki_agent.sim.calls import Calls
from nki_agent.sim.collective import Parcel
from nki_agent.sim.moving import Moving
from nki_agent.sim.sharing import Access, Watch
from nki_agent.sim.site import Machine
from nki_agent.sim.storage import Fill


@dataclass(frozen=True, slots=True)
class Straight:
    """Instructions one after the other; `steps` is the work of running them once."""

    calls: Calls
    steps: int
    accesses: tuple[Access, ...]
    """What they read and write of memory that both cores see, run-time offsets left out."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """A loop; what runs in front of each iteration is part of the body."""

    loop: Loop
    body: Block


@dataclass(frozen=True, slots=True)
class Barrier:
    """A core waits here until the other has come to a barrier on the same tensor."""

    tensor: int
    stack: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A core sends a tile, then waits for one."""

    pipe: object
    to: int
    source: int
    form: tuple[object, ...]
    """Partitions, elements and dtype: equal on both sides."""
    sends: tuple[Fill, ...]
    receives: tuple[Fill, ...]
    read: int
    written: int
    stack: int


@dataclass(frozen=True, slots=True)
class Swap:
    """Exchanges in a row that don't depend on each other: all are under way at once."""

    exchanges: tuple[Exchange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """A core waits here for the same core of the other ranks; `steps` as in `Straight`."""

    number: int
    """The instruction's number on its core; the same on every rank."""
    call: Call
    parcel: Parcel
    accesses: tuple[Access, ...]
    steps: int
    stack: int


Meeting = Barrier | Swap | Collective
Block = tuple[Straight | Repeat | Meeting, ...]


@dataclass(frozen=True, slots=True)
class Core:
    """The compiled body of one core."""

    block: Block
    machine: Machine
    watch: Watch
    moving: Mapping[int, Moving]
    """What is bound in each run, by the instruction's number on its core."""


def count_calls(block: Block) -> int:
    """Calls of a block in which each loop goes round once."""
    total = 0
    for part in block:
        match part:
            case Straight():
                total += len(part.calls.runs)
            case Repeat():
                total += count_calls(part.body)
            case Barrier() | Swap() | Collective():
                total += 1
    return total
