"""Ranks that wait for each other in collectives.

Law: a rank runs until each of its cores must wait. A collective needs every rank of its list at the
same instruction; core k of a rank meets core k of the others. Where no rank can go on, the run ends
with NK403.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.base.errors import KernelError
from nki_agent.program.records import Program
from nki_agent.sim.blocks import Collective
from nki_agent.sim.collective import combine, find_members, may_stand_apart, not_in_a_list
from nki_agent.sim.meeting import Meetings


class _Seat(NamedTuple):
    """A core of a rank."""

    rank: int
    core: int


class Ranks:
    """All ranks of one run."""

    def __init__(self, program: Program, ranks: Sequence[Meetings]) -> None:
        """None has begun."""
        self._program = program
        self._ranks = ranks

    def run(self) -> None:
        """Run every rank to its end.

        Raises:
            KernelError: NK403 if they wait for ever, or what a rank's own run raises.
        """
        for meetings in self._ranks:
            meetings.go_on(range(len(meetings.waiting)))
        while any(any(meetings.waiting) for meetings in self._ranks):
            released = self._meet()
            if not released:
                raise KernelError(self._stuck())
            for rank, core in released:
                self._ranks[rank].go_on((core,))

    def _meet(self) -> list[_Seat]:
        """Carry out every collective that all its ranks have come to."""
        released: list[_Seat] = []
        for rank, meetings in enumerate(self._ranks):
            for core, joint in enumerate(meetings.waiting):
                if not isinstance(joint, Collective) or _Seat(rank, core) in released:
                    continue
                members = self._members(joint, rank)
                if not members:
                    released.append(_Seat(rank, core))
                elif self._find_late(joint, members, core) is None:
                    self._exchange(members, core)
                    released += [_Seat(member, core) for member in members]
        return released

    def _members(self, joint: Collective, rank: int) -> tuple[int, ...]:
        members = find_members(joint.call, rank)
        if not members and not may_stand_apart(joint.call):
            raise self._placed(not_in_a_list(joint.call, rank), joint)
        missing = [member for member in members if member >= len(self._ranks)]
        if missing:
            raise self._placed(self._not_running(joint, missing[0]), joint)
        return members

    def _find_late(self, joint: Collective, members: Sequence[int], core: int) -> int | None:
        """The first rank that has not come to the collective."""
        for member in members:
            waiting = self._ranks[member].waiting[core]
            if not isinstance(waiting, Collective) or waiting.number != joint.number:
                return member
        return None

    def _exchange(self, members: Sequence[int], core: int) -> None:
        joints: list[Collective] = []
        for member in members:
            joint = self._ranks[member].waiting[core]
            assert isinstance(joint, Collective)
            joints.append(joint)
        sides = [
            (self._ranks[member], joint) for member, joint in zip(members, joints, strict=True)
        ]
        sequencers = [meetings.machines[core].sequencer for meetings, _ in sides]
        on_found = [
            None if meetings.report is None else partial(meetings.report, joint.stack)
            for meetings, joint in sides
        ]
        for sequencer, joint, report in zip(sequencers, joints, on_found, strict=True):
            sequencer.outbox.clear()
            joint.parcel.send(report)
        try:
            inboxes = combine(joints[0].call, members, [s.outbox for s in sequencers])
        except KernelError as error:
            raise self._placed(error.diagnostic, joints[0]) from error
        for sequencer, joint, report, inbox in zip(
            sequencers, joints, on_found, inboxes, strict=True
        ):
            sequencer.inbox = list(inbox)
            joint.parcel.receive(report)
            sequencer.outbox.clear()

    def _placed(self, found: Diagnostic, joint: Collective) -> KernelError:
        where = self._program.stack(joint.stack)
        return KernelError(msgspec.structs.replace(found, where=where))

    def _not_running(self, joint: Collective, missing: int) -> Diagnostic:
        count = len(self._ranks)
        return Diagnostic(
            code="NK403",
            what=f"`{joint.call.declaration.name}` waits for ever: rank {missing} of its ranks does"
            f" not run, the kernel runs on {count} rank{'' if count == 1 else 's'}",
            hint="simulate as many ranks as it names: `nki.simulate(kernel).ranks([(x0,), (x1,)])`;"
            " a task is judged on one rank",
        )

    def _stuck(self) -> Diagnostic:
        for rank, meetings in enumerate(self._ranks):
            for core, joint in enumerate(meetings.waiting):
                if isinstance(joint, Collective):
                    return self._stuck_in(joint, _Seat(rank, core))
        rank = next(n for n, meetings in enumerate(self._ranks) if any(meetings.waiting))
        found = self._ranks[rank].stuck()
        if len(self._ranks) == 1:
            return found
        return msgspec.structs.replace(found, what=f"rank {rank}: {found.what}")

    def _stuck_in(self, joint: Collective, seat: _Seat) -> Diagnostic:
        late = self._find_late(joint, self._members(joint, seat.rank), seat.core)
        assert late is not None
        meetings = self._ranks[late]
        return Diagnostic(
            code="NK403",
            what=f"{self._name(seat)} waits for ever in `{joint.call.declaration.name}`, while"
            f" {self._name(_Seat(late, seat.core))} {meetings.describe_state(seat.core)}",
            where=self._program.stack(joint.stack),
            hint="let all ranks of a list reach the same collectives in the same order, and loops"
            " around collectives go round equally often",
        )

    def _name(self, seat: _Seat) -> str:
        has_cores = len(self._ranks[seat.rank].waiting) > 1
        return f"core {seat.core} of rank {seat.rank}" if has_cores else f"rank {seat.rank}"
