"""The one thread that hands jobs to workers and takes their ends back.

Law: a job has one end. What a worker said before it died counts; a job whose worker died without a
word is given to a fresh one, and is `Lost` after as many workers as the limits allow. Those are
counted against a job that it may itself have cost: by memory, by a crash, by a hang. A worker that
was killed by others, or was gone before it was ready, is none of the job's doing; of such it may
meet more. A worker is started when a job needs one, so a farm that waits costs nothing.
"""

from __future__ import annotations

import math
import os
import select
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec

from nki_agent.base.clock import Clock
from nki_agent.base.errors import MachineError
from nki_agent.farm.job import End, Lost
from nki_agent.farm.start import START_SECONDS, PreparedProcess
from nki_agent.farm.wire import (
    PACKET_BYTES,
    Ended,
    FarmLimits,
    Fork,
    Kill,
    Prepared,
    Reply,
    Report,
    Wish,
    receive,
    send,
)
from nki_agent.verify.compiling import count_memory_kills

NS_PER_SECOND: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000
FALSE_STARTS_MAX: Final = 3
"""Workers for one job that could not be started: the machine has no room for any."""
KILLS_MAX: Final = 10
"""Workers of one job that others have killed: somebody wants no verdict."""
CLOSED: Final = "the farm was closed"


@dataclass(slots=True, eq=False)
class Ticket:
    """A job that waits or runs."""

    order: bytes
    future: Future[End] = field(default_factory=Future)
    is_begun: bool = False
    failures: int = 0
    """Workers that it has cost."""
    kills: int = 0
    """Workers that others have killed under it."""
    false_starts: int = 0
    """Workers that were gone before they were ready for it: none of its doing."""

    def begin(self) -> bool:
        """Whether it is still wanted; from now on it cannot be cancelled."""
        self.is_begun = self.is_begun or self.future.set_running_or_notify_cancel()
        return self.is_begun

    def note_loss(self, *, is_ready: bool, by_others: bool) -> None:
        """One worker less."""
        self.false_starts += not is_ready
        self.kills += is_ready and by_others
        self.failures += is_ready and not by_others

    def is_given_up(self, attempts: int) -> bool:
        """Whether it has had as many workers as it may have."""
        too_many = self.failures >= attempts or self.kills >= KILLS_MAX
        return too_many or self.false_starts >= FALSE_STARTS_MAX


@dataclass(slots=True, eq=False)
class _Slot:
    """The place of one worker, with or without one."""

    token: int = 0
    """Number of its worker; a new one for every worker, so that late reports miss."""
    control: socket.socket | None = None
    is_ready: bool = False
    ticket: Ticket | None = None
    deadline_ns: int | None = None
    memory_kills: int = 0
    """How many processes this machine had killed for want of memory when the job was given."""


class Dispatcher:
    """State of the thread; only `submit` and `stop` are for others."""

    def __init__(self, *, workers: int, limits: FarmLimits, clock: Clock) -> None:
        """Start nothing yet."""
        self._limits = limits
        self._clock = clock
        self._slots = [_Slot() for _ in range(workers)]
        self._queue: deque[Ticket] = deque()
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poller = select.poll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._watch(self._wake_reader, self._drain_wakes)
        self._prepared: PreparedProcess | None = None
        self._last_token = 0

    def submit(self, ticket: Ticket) -> None:
        """Queue a job; RuntimeError when the farm is closed."""
        with self._lock:
            if self._is_closed:
                raise RuntimeError(CLOSED)
            self._queue.append(ticket)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="farm", daemon=True)
                self._thread.start()
            self._wake()

    def stop(self) -> None:
        """End the thread and every process; returns when they are gone."""
        with self._lock:
            first, self._is_closed = not self._is_closed, True
            thread = self._thread
            if first and thread is not None:
                self._wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        if first and thread is None:
            self._close_pipe()

    @property
    def prepared_pid(self) -> int | None:
        """The prepared process, for who watches its memory."""
        prepared = self._prepared
        return None if prepared is None else prepared.pid

    def _wake(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._wake_writer, b"w")

    def _drain_wakes(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wake_reader, PACKET_BYTES)

    def _run(self) -> None:
        reason: BaseException | None = None
        try:
            while not self._is_closed:
                self._assign()
                for descriptor, _ in self._poller.poll(self._wait_ms()):
                    handler = self._handlers.get(descriptor)
                    if handler is not None:
                        handler()
                self._check_deadlines()
        except BaseException as error:  # noqa: BLE001 - told to everyone who waits for a job
            reason = error
        finally:
            self._end(reason)

    def _end(self, reason: BaseException | None) -> None:
        """Leave no process behind, and nobody waiting."""
        with self._lock:
            self._is_closed = True
            waiting = list(self._queue)
            self._queue.clear()
        running = [slot.ticket for slot in self._slots if slot.ticket is not None]
        for slot in self._slots:
            self._leave(slot)
        if self._prepared is not None:
            self._prepared.stop()
            self._prepared = None
        self._close_pipe()
        for ticket in waiting:
            if not ticket.is_begun:
                ticket.future.cancel()
                ticket.future.set_running_or_notify_cancel()
            else:
                running.append(ticket)
        for ticket in running:
            if reason is None:
                ticket.future.set_result(Lost(CLOSED))
            else:
                ticket.future.set_exception(reason)

    def _close_pipe(self) -> None:
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    def _assign(self) -> None:
        for slot in self._slots:
            while slot.ticket is None:
                ticket = self._next_ticket()
                if ticket is None:
                    return
                self._give(slot, ticket)

    def _next_ticket(self) -> Ticket | None:
        while True:
            with self._lock:
                if not self._queue:
                    return None
                ticket = self._queue.popleft()
            if ticket.begin():
                return ticket

    def _give(self, slot: _Slot, ticket: Ticket) -> None:
        """Send a job, to a worker that may only be born later."""
        slot.ticket, slot.memory_kills = ticket, count_memory_kills()
        try:
            if slot.control is None:
                self._start_worker(slot)
            assert slot.control is not None
            send(slot.control, ticket.order)
        except (OSError, MachineError) as error:
            self._lose(slot, f"a worker cannot be reached: {error}")
            return
        self._set_deadline(slot)

    def _set_deadline(self, slot: _Slot) -> None:
        seconds = self._limits.job_seconds if slot.is_ready else START_SECONDS
        slot.deadline_ns = self._clock.monotonic_ns() + int(seconds * NS_PER_SECOND)

    def _start_worker(self, slot: _Slot) -> None:
        if self._prepared is not None and self._prepared.has_ended:
            self._lose_all(self._prepared.explain())
        if self._prepared is None:
            self._prepared = PreparedProcess(self._limits)
            self._watch(self._prepared.control.fileno(), self._hear_prepared)
        self._last_token += 1
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)  # noqa: FBT003 - the standard library's signature
        slot.token, slot.control, slot.is_ready = self._last_token, ours, False
        self._watch(ours.fileno(), lambda: self._hear_worker(slot))
        with theirs:
            wish = msgspec.msgpack.encode(Fork(token=slot.token))
            socket.send_fds(self._prepared.control, [wish], [theirs.fileno()])

    def _hear_worker(self, slot: _Slot) -> None:
        """Take what a worker says; that it is gone, the prepared process tells with the cause."""
        if slot.control is None:
            return
        try:
            reply = receive(slot.control, Reply)
        except BlockingIOError:
            return
        if reply is None:
            self._forget(slot.control)
        elif reply.end is None:
            slot.is_ready = True
            if slot.ticket is not None:
                self._set_deadline(slot)
        else:
            self._finish(slot, reply.end, growth_bytes=reply.growth_bytes)

    def _finish(self, slot: _Slot, end: End, *, growth_bytes: int) -> None:
        if isinstance(end, Lost):
            self._lose(slot, end.reason)
            return
        ticket, slot.ticket, slot.deadline_ns = slot.ticket, None, None
        if growth_bytes > self._limits.growth_bytes:
            self._leave(slot)
        if ticket is not None:
            ticket.future.set_result(end)

    def _lose(self, slot: _Slot, reason: str, *, by_others: bool = False) -> None:
        """An attempt failed: give up the worker, and the job if it has cost enough of them."""
        ticket, slot.ticket = slot.ticket, None
        if ticket is not None:
            ticket.note_loss(is_ready=slot.is_ready, by_others=by_others)
        self._leave(slot)
        if ticket is None:
            return
        if ticket.is_given_up(self._limits.attempts):
            ticket.future.set_result(Lost(reason))
            return
        with self._lock:
            self._queue.appendleft(ticket)

    def _leave(self, slot: _Slot) -> None:
        """Close the socket of a worker: it ends when it next looks, if it has not."""
        if slot.control is not None:
            self._forget(slot.control)
            slot.control.close()
        slot.control, slot.is_ready, slot.deadline_ns, slot.token = None, False, None, 0

    def _hear_prepared(self) -> None:
        assert self._prepared is not None
        try:
            packet = self._prepared.control.recv(PACKET_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            packet = b""
        if not packet:
            self._lose_all(self._prepared.explain())
            return
        report: Report = msgspec.msgpack.decode(packet, type=Report)
        match report:
            case Prepared(failure=failure):
                if failure:
                    self._lose_all(f"the prepared process could not start: {failure}")
            case Ended():
                self._bury(report)

    def _bury(self, ended: Ended) -> None:
        for slot in self._slots:
            if slot.token == ended.token:
                self._drain(slot)
                if slot.token == ended.token:
                    by_others = was_killed_by_others(ended, memory_kills=slot.memory_kills)
                    self._lose(slot, describe_end(ended), by_others=by_others)

    def _drain(self, slot: _Slot) -> None:
        """What a worker said before it ended still counts."""
        while slot.control is not None and slot.control.fileno() in self._handlers:
            ready = select.poll()
            ready.register(slot.control, select.POLLIN)
            if not ready.poll(0):
                return
            self._hear_worker(slot)

    def _lose_all(self, reason: str) -> None:
        """Without the prepared process its workers are dead or dying; the next job starts anew."""
        assert self._prepared is not None
        for slot in self._slots:
            self._drain(slot)
            if slot.control is not None:
                # No job runs in the prepared process, so none has ended it.
                self._lose(slot, reason, by_others=True)
        self._forget(self._prepared.control)
        self._prepared.stop()
        self._prepared = None

    def _check_deadlines(self) -> None:
        now_ns = self._clock.monotonic_ns()
        for slot in self._slots:
            if slot.deadline_ns is None or now_ns < slot.deadline_ns:
                continue
            if slot.is_ready:
                self._tell_prepared(Kill(token=slot.token))
                self._lose(slot, f"no verdict within {self._limits.job_seconds:g} s")
            else:
                self._lose_all(f"no worker within {START_SECONDS:g} s")
                return

    def _tell_prepared(self, wish: Wish) -> None:
        assert self._prepared is not None
        with suppress(OSError):
            self._prepared.control.send(msgspec.msgpack.encode(wish))

    def _wait_ms(self) -> float | None:
        deadlines = [s.deadline_ns for s in self._slots if s.deadline_ns is not None]
        if not deadlines:
            return None
        return max(0, math.ceil((min(deadlines) - self._clock.monotonic_ns()) / NS_PER_MS))

    def _watch(self, descriptor: int, handler: Callable[[], None]) -> None:
        self._poller.register(descriptor, select.POLLIN)
        self._handlers[descriptor] = handler

    def _forget(self, control: socket.socket) -> None:
        if self._handlers.pop(control.fileno(), None) is not None:
            self._poller.unregister(control)


def was_killed_by_others(ended: Ended, *, memory_kills: int) -> bool:
    """Whether a worker was killed, and not because memory ran out since its job was given."""
    is_killed = os.waitstatus_to_exitcode(ended.wait_status) == -signal.SIGKILL
    return is_killed and count_memory_kills() == memory_kills


def describe_end(ended: Ended) -> str:
    """Why a worker is gone, for people."""
    if ended.failure:
        return f"no worker could be started: {ended.failure}"
    code = os.waitstatus_to_exitcode(ended.wait_status)
    if code == -signal.SIGKILL:
        return "a worker was killed: by hand, or as this machine ran out of memory"
    if code < 0:
        return f"a worker ended with {_name_signal(-code)}"
    return f"a worker ended with status {code}"


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
