"""The runs of one kernel: the child that gave a result is asked again, any other is given up.

Law: a run that gives no result in a child that has run before is made again in a fresh one, so that
what is said against a kernel never depends on its earlier runs. A child is asked by one session.
"""

from __future__ import annotations

import math
import select
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from nki_agent.base.clock import Clock, SystemClock
from nki_agent.sandbox.outcome import Limits, Outcome, OutcomeKind
from nki_agent.sandbox.warm import (
    CHUNK_BYTES,
    NS_PER_MS,
    NS_PER_SECOND,
    LostError,
    WarmProcess,
    drain,
    judge,
    own_failure,
    read_frame,
    require_begun,
)
from nki_agent.sandbox.wire import REQUEST, FrameReader, make_ticket

Answer = TypeVar("Answer")
NO_ANSWER: Final = "said what is no answer"


class Attempt(Protocol):
    """Does something with the warmed process; where that is lost, once more with another."""

    def __call__(self, work: Callable[[WarmProcess], Answer], /) -> Answer:
        """The answer; MachineError where the warmed process was lost too often."""


class Session:
    """One child after another of a sandbox, one at a time; close it or use `with`."""

    def __init__(self, attempt: Attempt, limits: Limits) -> None:
        """Start nothing yet."""
        self._attempt = attempt
        self._limits = limits
        self._child: _Child | None = None

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the child."""
        self.close()

    @property
    def is_fresh(self) -> bool:
        """Whether the next run is its child's first."""
        return self._child is None or not self._child.is_alive

    def run(self, payload: bytes) -> Outcome:
        """Call the entry on the payload; MachineError as for `Sandbox.run`."""
        return self._attempt(lambda warm: self._run(warm, payload))

    def _run(self, warm: WarmProcess, payload: bytes) -> Outcome:
        if self._child is not None and self._child.is_alive and self._child.warm is warm:
            outcome = self._child.ask(payload)
            if outcome.kind is OutcomeKind.RESULT:
                return outcome
        self._child = _Child(warm, self._limits)
        return self._child.ask(payload)

    def close(self) -> None:
        """End the child; a later `run` starts another."""
        child, self._child = self._child, None
        if child is not None:
            try:
                child.close()
            except LostError:
                child.warm.stop()  # what it says next would be taken for another child's end


class _Child:
    """A child that answers one request after another."""

    def __init__(self, warm: WarmProcess, limits: Limits) -> None:
        self.warm = warm
        self._limits = limits
        self._clock: Clock = SystemClock()
        self._has_answered = False
        with own_failure("hand a run over"):
            self._channel = warm.open(limits)
        self._channel.settimeout(0.0)
        self.is_alive = True

    def ask(self, payload: bytes) -> Outcome:
        """The end of one run; after any but a result the child is gone."""
        start_ns = self._clock.monotonic_ns()
        deadline_ns = start_ns + int(self._limits.seconds * NS_PER_SECOND)
        ticket = make_ticket()
        frame = FrameReader(
            limit=self._limits.result_bytes, ticket=ticket, is_jailed=self._has_answered
        )
        request = REQUEST.pack(ticket, len(payload)) + payload
        with own_failure("hand a run over"):
            kind, data, detail = self._exchange(request, frame, deadline_ns)
        return Outcome(
            kind=kind,
            data=data,
            detail=detail,
            wall_ns=self._clock.monotonic_ns() - start_ns,
            max_rss_bytes=0,
        )

    def _exchange(
        self, request: bytes, frame: FrameReader, deadline_ns: int
    ) -> tuple[OutcomeKind, bytes, str]:
        if self._has_spoken():
            self.close()
            return OutcomeKind.EXITED, b"", NO_ANSWER
        cut = self._follow(request, frame, deadline_ns)
        if cut is None and frame.is_settled:
            self._has_answered = True
            whole = frame.frame()
            found = read_frame(*whole, limits=self._limits) if whole else None
            if found is None or found[0] is not OutcomeKind.RESULT:
                self.close()
            return found or (OutcomeKind.EXITED, b"", NO_ANSWER)
        if cut is not None:
            self.warm.kill()
        self.is_alive = False
        with self._channel:
            end = self.warm.read_end()
            if cut is None:
                cut = drain(self._channel.fileno(), frame)
        require_begun(frame, end)
        return judge(frame, end, cut=cut, limits=self._limits)

    def _has_spoken(self) -> bool:
        """Whether it said something that nobody had asked, or is gone."""
        poller = select.poll()
        poller.register(self._channel, select.POLLIN)
        return self._has_answered and bool(poller.poll(0))

    def _follow(self, request: bytes, frame: FrameReader, deadline_ns: int) -> OutcomeKind | None:
        """Write and read until there is an answer or an end; what it is cut short for, if so."""
        left = memoryview(request)
        poller = select.poll()
        poller.register(self._channel, select.POLLIN | select.POLLOUT)
        control = self.warm.watch(poller)
        while (left_ns := deadline_ns - self._clock.monotonic_ns()) > 0:
            ready = dict(poller.poll(math.ceil(left_ns / NS_PER_MS)))
            if event := ready.get(self._channel.fileno(), 0):
                if event & select.POLLOUT:
                    left = self._write(left)
                    if not left:
                        poller.modify(self._channel, select.POLLIN)
                if event & ~select.POLLOUT and not self._read(frame):
                    poller.unregister(self._channel)
                if frame.is_over:
                    return OutcomeKind.OVERSIZE
                if frame.is_settled:
                    return None
            elif control in ready:
                return None
        return OutcomeKind.TIMEOUT

    def _write(self, left: memoryview) -> memoryview:
        """Write some of it; nothing is left for one that listens no more."""
        try:
            return left[self._channel.send(left[:CHUNK_BYTES]) :]
        except BlockingIOError:
            return left
        except ConnectionError:
            return left[:0]

    def _read(self, frame: FrameReader) -> bool:
        """Take what is there; whether more can come."""
        try:
            chunk = self._channel.recv(CHUNK_BYTES)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        frame.feed(chunk)
        return bool(chunk)

    def close(self) -> None:
        """End it; LostError when nobody knows whether it has."""
        if not self.is_alive:
            return
        self.is_alive = False
        self._channel.close()
        self.warm.kill()
        self.warm.read_end()
