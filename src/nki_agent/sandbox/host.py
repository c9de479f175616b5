"""The trusted end of guests: starts long-lived jailed children and asks them, one at a time.

Law: every wait has a bound, and every reply a limit in bytes that is known before it is read. What
a guest does wrong, its end included, is a `GuestError`; what the machine does is a `MachineError`.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from nki_agent.base.clock import Clock, SystemClock
from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import MachineError
from nki_agent.sandbox.guests import encode_kill
from nki_agent.sandbox.locate import OWN_PACKAGE, find_import_paths
from nki_agent.sandbox.outcome import Limits, Status
from nki_agent.sandbox.pool import require_enough
from nki_agent.sandbox.warm import (
    KILL_SECONDS,
    NS_PER_MS,
    NS_PER_SECOND,
    LostError,
    WarmProcess,
    own_failure,
)
from nki_agent.sandbox.wire import (
    FRAME_KINDS,
    HEADER,
    JAILED,
    MEMORY,
    RAISED,
    REQUEST,
    RUN,
    TEXT_BYTES,
    Begun,
    Boot,
    End,
    Ended,
    make_ticket,
)

CHUNK_BYTES: Final = 1 << 20
BEGIN_SECONDS: Final = 30.0
"""From the fork to a locked guest; a busy machine needs some of it."""


class GuestError(Exception):
    """A guest ended, was ended, or said what it may not; the text says which."""


class GuestLostError(GuestError):
    """A guest was killed by neither us nor a limit: by hand, or as memory ran out."""


class GuestHost:
    """One warmed process and its guests; used from one thread.

    Args:
        entry: A callable `package.module:name` that gives what answers requests, bytes to bytes.
        warm_up: A callable that is called before the first guest is forked.
        preload: Modules imported beforehand.
        allow_unsandboxed: Start guests although none of uid, Landlock and seccomp works here.
    """

    def __init__(
        self,
        entry: str,
        *,
        warm_up: str,
        preload: Sequence[str] = (),
        allow_unsandboxed: bool = False,
    ) -> None:
        """Start the warmed process; MachineError when it can't be, or must not be used."""
        boot = Boot(
            entry=entry,
            preload=tuple(preload),
            import_paths=find_import_paths(preload, extra=()),
            own_packages=(OWN_PACKAGE,),
            warm_up=warm_up,
            guests=True,
        )
        self._warm = _GuestProcess(boot)
        self._finalizer = weakref.finalize(self, self._warm.stop)
        try:
            require_enough(self._warm.status, allow_unsandboxed=allow_unsandboxed)
        except MachineError:
            self.close()
            raise

    @property
    def status(self) -> Status:
        """The layers that every guest gets."""
        return self._warm.status

    @property
    def pid(self) -> int:
        """The warmed process, for who watches it."""
        return self._warm.pid

    @property
    def is_open(self) -> bool:
        """Whether it was not ended by us."""
        return self._finalizer.alive

    @property
    def is_ours(self) -> bool:
        """Whether this process started it; a fork of that one must start its own."""
        return self._warm.owner_pid == os.getpid()

    def close(self) -> None:
        """End the warmed process and with it all guests."""
        self._finalizer()

    def open(self, limits: Limits, *, clock: Clock | None = None) -> Guest:
        """Start a guest; LostError when the warmed process is gone."""
        with own_failure("start a guest"):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with theirs:
                pid = self._warm.begin(limits, theirs)
            return Guest(self._warm, ours, pid, limits=limits, clock=clock or SystemClock())
        except BaseException:
            ours.close()
            raise


class _GuestProcess(WarmProcess):
    """A warmed process that keeps guests."""

    def __init__(self, boot: Boot) -> None:
        super().__init__(boot)
        self._ends: dict[int, End] = {}

    def begin(self, limits: Limits, channel: socket.socket) -> int:
        """Fork a guest; its process id."""
        try:
            message = RUN + msgspec.msgpack.encode(limits)
            socket.send_fds(self._control, [message], [channel.fileno()])
        except OSError as error:
            raise LostError from error
        while True:
            found = self._next_packet()
            if isinstance(found, Begun):
                break
        if found.failure:
            raise MachineError(f"the sandbox could not start a guest: {clean(found.failure)}")
        return found.pid

    def end(self, pid: int) -> End:
        """Kill a guest, if it still lives, and say how it ended; LostError when nobody knows."""
        if pid not in self._ends:
            self._tell(encode_kill(pid))
        while pid not in self._ends:
            self._next_packet()
        return self._ends.pop(pid)

    def wait(self, pid: int) -> End:
        """How a guest ended that closed its channel; one that lives on is killed."""
        with suppress(LostError):
            while pid not in self._ends:
                self._next_packet(seconds=1.0)
        return self.end(pid)

    def _next_packet(self, seconds: float = KILL_SECONDS) -> Begun | Ended:
        packet = self._receive(seconds)
        if not packet:
            raise LostError
        found: Begun | Ended = msgspec.msgpack.decode(packet, type=Begun | Ended)
        if isinstance(found, Ended):
            self._ends[found.pid] = found.end
        return found


class Guest:
    """One long-lived jailed child."""

    def __init__(
        self,
        warm: _GuestProcess,
        channel: socket.socket,
        pid: int,
        *,
        limits: Limits,
        clock: Clock,
    ) -> None:
        """Wait until it is locked; MachineError when it can't be."""
        self.pid = pid
        self._warm = warm
        self._channel = channel
        self._limits = limits
        self._clock = clock
        self._finalizer = weakref.finalize(self, _dismiss, warm, channel, pid)
        channel.settimeout(0.0)
        try:
            deadline_ns = self._deadline(BEGIN_SECONDS)
            first = bytes(self._read(1, deadline_ns))
            if first != JAILED:
                said = bytes(self._read(TEXT_BYTES, deadline_ns, whole=False))
                raise MachineError(
                    f"the sandbox could not lock a guest: {clean(said.decode(errors='replace'))}"
                )
        except TimeoutError as error:
            self.close()
            raise MachineError("the sandbox could not lock a guest in time") from error
        except EOFError as error:
            raise MachineError(f"the sandbox could not lock a guest: {self._tell_end()}") from error
        except MachineError:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        """Whether it can be asked."""
        return self._finalizer.alive

    def close(self) -> None:
        """End it."""
        self._finalizer()

    def ask(self, request: bytes, *, seconds: float, reply_bytes: int) -> bytes:
        """The answer to one request.

        Raises:
            GuestError: It ended, was too slow, said too much, or its entry raised; but for the
                last the guest is gone then.
            LostError: The warmed process is gone.
        """
        deadline_ns = self._deadline(seconds)
        try:
            ticket = make_ticket()
            self._write(REQUEST.pack(ticket, len(request)), deadline_ns)
            self._write(request, deadline_ns)
            kind, answered, length = HEADER.unpack(self._read(HEADER.size, deadline_ns))
            if kind not in FRAME_KINDS or answered != ticket:
                raise GuestError(self._end_it("it said what is no answer"))
            if length > reply_bytes:
                raise GuestError(self._end_it(f"an answer of more than {reply_bytes} bytes"))
            data = bytes(self._read(length, deadline_ns))
        except TimeoutError as error:
            raise GuestError(self._end_it(f"no answer within {seconds:g} s")) from error
        except (EOFError, ConnectionError) as error:
            raise self._tell_end() from error
        except GuestError:
            raise
        except BaseException:
            # Interrupted in the middle: what it would say next is no answer to us.
            self.close()
            raise
        if kind == MEMORY:
            raise GuestError(self._end_it(f"more than {self._limits.memory_bytes} bytes of memory"))
        if kind == RAISED:
            raise GuestError(clean(data[:TEXT_BYTES].decode(errors="replace")))
        return data

    def _end_it(self, why: str) -> str:
        self.close()
        return why

    def _tell_end(self) -> GuestError:
        """How it ended, as the error that says so."""
        self._finalizer.detach()
        self._channel.close()
        end = self._warm.wait(self.pid)
        code = os.waitstatus_to_exitcode(end.wait_status)
        if end.cpu_seconds >= self._limits.cpu_seconds or code == -signal.SIGXCPU:
            return GuestError(f"over {self._limits.cpu_seconds} s of CPU time")
        if code == -signal.SIGKILL:
            return GuestLostError("it was killed: perhaps this machine ran out of memory")
        if code < 0:
            return GuestError(f"it ended by signal {-code}")
        return GuestError(f"it ended with status {code}")

    def _deadline(self, seconds: float) -> int:
        return self._clock.monotonic_ns() + int(seconds * NS_PER_SECOND)

    def _await(self, event: int, deadline_ns: int) -> None:
        left_ns = deadline_ns - self._clock.monotonic_ns()
        poller = select.poll()
        poller.register(self._channel, event)
        if left_ns <= 0 or not poller.poll(left_ns / NS_PER_MS):
            raise TimeoutError

    def _read(self, size: int, deadline_ns: int, *, whole: bool = True) -> bytearray:
        """That many bytes; fewer only where not all are wanted and no more come."""
        data = bytearray()
        while len(data) < size:
            self._await(select.POLLIN, deadline_ns)
            chunk = self._channel.recv(min(size - len(data), CHUNK_BYTES))
            if not chunk and whole:
                raise EOFError
            if not chunk:
                break
            data += chunk
        return data

    def _write(self, data: bytes, deadline_ns: int) -> None:
        view = memoryview(data)
        while view:
            self._await(select.POLLOUT, deadline_ns)
            with suppress(BlockingIOError):
                view = view[self._channel.send(view[:CHUNK_BYTES]) :]


def _dismiss(warm: _GuestProcess, channel: socket.socket, pid: int) -> None:
    """End a guest that nobody asks any more, unless this process is a fork of its owner."""
    channel.close()
    if os.getpid() == warm.owner_pid and warm.is_running:
        with suppress(LostError):
            warm.end(pid)
