"""The trusted end of a warmed process: starts it, sends one request at a time, judges how it ended.

Law: every wait has a bound. What a child writes is counted while it is read and never interpreted.
"""

from __future__ import annotations

import fcntl
import math
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

import msgspec

from nki_agent.base.clock import Clock, SystemClock
from nki_agent.base.diagnostic import TEXT_LIMIT, clean
from nki_agent.base.errors import MachineError
from nki_agent.sandbox.bubblewrap import find_ring, make_arguments, python_program, read_pid
from nki_agent.sandbox.libc import open_memory_file
from nki_agent.sandbox.locate import make_environment
from nki_agent.sandbox.outcome import Limits, Outcome, OutcomeKind, Status
from nki_agent.sandbox.wire import (
    KILL,
    MEMORY,
    PACKET_BYTES,
    QUIT,
    RAISED,
    RUN,
    STAY,
    TEXT_BYTES,
    Boot,
    End,
    FrameReader,
    Ready,
)

START_SECONDS: Final = 60.0
"""A warmed process that is not ready by then never will be; cold disks need some seconds."""
KILL_SECONDS: Final = 10.0
"""From a kill to the word that the child is gone; Linux frees its memory meanwhile."""
STOP_SECONDS: Final = 1.0
CHUNK_BYTES: Final = 1 << 20
PIPE_BYTES: Final = 1 << 20
"""The most that Linux gives an ordinary user's pipe."""
LOG_BYTES: Final = 1 << 16
NS_PER_SECOND: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000

BOOT_CODE: Final = (
    "import sys; sys.path.extend(sys.argv[2:]); "
    "from nki_agent.sandbox.zygote import main; main(sys.argv[1])"
)
FLAGS: Final = ("-s", "-S", "-P", "-c")
"""No user folder, no `site`, no script folder. Not `-I`: it would ignore the hash seed."""


@contextmanager
def own_failure(doing: str) -> Iterator[None]:
    """Turn what Linux refuses to us (no descriptor, no memory, no room) into a MachineError."""
    try:
        yield
    except OSError as error:
        raise MachineError(f"the sandbox could not {doing}: {error.strerror or error}") from error


class LostError(Exception):
    """The warmed process ended without being asked to."""


class WarmProcess:
    """One warmed process, ready for requests."""

    def __init__(self, boot: Boot, *, clock: Clock | None = None) -> None:
        """Start it and wait until it is ready; MachineError when it can't be."""
        self._clock: Clock = clock or SystemClock()
        self.owner_pid = os.getpid()
        with ExitStack() as stack:
            stack.enter_context(own_failure("start a process"))
            self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            started = stack.enter_context(ExitStack())
            started.callback(self._control.close)
            with theirs:
                log = open_memory_file()
                stack.callback(os.close, log)
                self._process, self._inner_pid = _start(boot, control=theirs, log=log)
            self.status = self._read_status(log)
            started.pop_all()

    @property
    def pid(self) -> int:
        """Its process id, that of bubblewrap around it aside."""
        return self._inner_pid or self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was not ended by us."""
        return self._control.fileno() >= 0

    def run(self, payload: bytes, limits: Limits) -> Outcome:
        """Run the callable once; LostError when the warmed process is gone."""
        with own_failure("hand a run over"):
            return self._run(payload, limits)

    def _run(self, payload: bytes, limits: Limits) -> Outcome:
        start_ns = self._clock.monotonic_ns()
        deadline_ns = start_ns + int(limits.seconds * NS_PER_SECOND)
        pipe = self._send(payload, limits)
        try:
            frame = FrameReader(limit=limits.result_bytes)
            cut = self._follow(pipe, frame, deadline_ns=deadline_ns)
            if cut is not None:
                self._tell(KILL)
            end = self.read_end()
            if cut is None:
                cut = drain(pipe, frame)
        finally:
            os.close(pipe)
        require_begun(frame, end)
        kind, data, detail = judge(frame, end, cut=cut, limits=limits)
        return Outcome(
            kind=kind,
            data=data,
            detail=detail,
            wall_ns=self._clock.monotonic_ns() - start_ns,
            max_rss_bytes=end.max_rss_bytes,
        )

    def stop(self) -> None:
        """End it, with what it runs; a process that inherited this object only forgets it."""
        if os.getpid() != self.owner_pid:
            self._control.close()
            self._process.returncode = 0
            return
        with suppress(LostError):
            self._tell(QUIT)
        self._control.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()

    def _read_status(self, log: int) -> Status:
        """The first packet, or MachineError with what Python said instead."""
        try:
            packet = self._receive(START_SECONDS)
            if packet:
                ready: Ready = msgspec.msgpack.decode(packet, type=Ready)
                if not ready.failure:
                    return ready.status
                said = ready.failure
            else:
                said = os.pread(log, LOG_BYTES, 0).decode(errors="replace")[-TEXT_LIMIT:]
            raise MachineError(f"the sandbox process did not start: {clean(said) or 'no word'}")
        except BaseException:
            self._control.close()
            self._kill()
            raise

    def _kill(self) -> None:
        """End it at once: what runs inside first, so that nothing outlives the ring around it."""
        if self._inner_pid:
            with suppress(ProcessLookupError):
                os.kill(self._inner_pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
        self._process.kill()
        self._process.wait()

    def _send(self, payload: bytes, limits: Limits) -> int:
        """Hand over one request; the end of the pipe on which the result comes."""
        with ExitStack() as stack:
            file = open_memory_file()
            stack.callback(os.close, file)
            _fill(file, payload)
            reader, writer = os.pipe()
            stack.callback(os.close, writer)
            with suppress(OSError):  # over the user's quota for pipes: slower, not wrong
                fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            try:
                message = RUN + msgspec.msgpack.encode(limits)
                socket.send_fds(self._control, [message], [file, writer])
            except OSError as error:
                os.close(reader)
                raise LostError from error
        return reader

    def _follow(self, pipe: int, frame: FrameReader, *, deadline_ns: int) -> OutcomeKind | None:
        """Read until the child is gone; what it must be cut short for, if anything."""
        poller = select.poll()
        poller.register(pipe, select.POLLIN)
        poller.register(self._control, select.POLLIN)
        while (left_ns := deadline_ns - self._clock.monotonic_ns()) > 0:
            ready = {descriptor for descriptor, _ in poller.poll(math.ceil(left_ns / NS_PER_MS))}
            if pipe in ready:
                chunk = os.read(pipe, CHUNK_BYTES)
                if not chunk:
                    poller.unregister(pipe)
                frame.feed(chunk)
                if frame.is_over:
                    return OutcomeKind.OVERSIZE
            elif ready:
                return None
        return OutcomeKind.TIMEOUT

    def open(self, limits: Limits) -> socket.socket:
        """Start a child that answers request after request; our end of its channel.

        `read_end` must follow before another is started.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            try:
                message = STAY + msgspec.msgpack.encode(limits)
                socket.send_fds(self._control, [message], [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise LostError from error
        return ours

    def watch(self, poller: select.poll) -> int:
        """Have the poller tell when a child has ended; under which descriptor it does."""
        poller.register(self._control, select.POLLIN)
        return self._control.fileno()

    def kill(self) -> None:
        """Have the child that runs now killed, if one does; `read_end` says when it is gone."""
        self._tell(KILL)

    def read_end(self) -> End:
        """How a child ended; waits for it, and LostError when the warmed process does not say."""
        packet = self._receive(KILL_SECONDS)
        if not packet:
            raise LostError
        end: End = msgspec.msgpack.decode(packet, type=End)
        return end

    def _receive(self, seconds: float) -> bytes:
        """The next packet; empty when the process is gone or says nothing in time."""
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        if not poller.poll(seconds * NS_PER_SECOND / NS_PER_MS):
            return b""
        try:
            return self._control.recv(PACKET_BYTES)
        except ConnectionError:
            return b""

    def _tell(self, message: bytes) -> None:
        try:
            self._control.send(message)
        except OSError as error:
            raise LostError from error


def require_begun(frame: FrameReader, end: End) -> None:
    """Raise MachineError unless the jail stood: what happens before that is not the kernel's."""
    if end.failure:
        raise MachineError(f"the sandbox could not start a child: {clean(end.failure)}")
    if not frame.is_jailed:
        said = clean(frame.text()) or f"wait status {end.wait_status}"
        raise MachineError(f"the sandbox could not lock a child: {said}")


def judge(
    frame: FrameReader, end: End, *, cut: OutcomeKind | None, limits: Limits
) -> tuple[OutcomeKind, bytes, str]:
    """Kind, data and detail of a run: who ended it, and whether a whole frame came first."""
    if cut is OutcomeKind.TIMEOUT:
        return cut, b"", f"no answer within {limits.seconds:g} s"
    if cut is OutcomeKind.OVERSIZE:
        return cut, b"", f"a result over {limits.result_bytes} bytes"
    code = os.waitstatus_to_exitcode(end.wait_status)
    # SIGXCPU can be ignored; what then ends it at the hard limit is a plain kill.
    is_spent = code == -signal.SIGKILL and end.cpu_seconds >= limits.cpu_seconds
    if code == -signal.SIGXCPU or is_spent:
        return OutcomeKind.TIMEOUT, b"", f"over {limits.cpu_seconds} s of CPU time"
    if code < 0:
        return OutcomeKind.KILLED, b"", _name_signal(-code)
    whole = frame.frame() if code == 0 else None
    if whole is None:
        return OutcomeKind.EXITED, b"", f"ended with status {code} and without a result"
    return read_frame(*whole, limits=limits)


def read_frame(kind: bytes, data: bytes, *, limits: Limits) -> tuple[OutcomeKind, bytes, str]:
    """Kind, data and detail of a run that gave a whole frame."""
    if kind == RAISED:
        return OutcomeKind.RAISED, b"", clean(data[:TEXT_BYTES].decode(errors="replace"))
    if kind == MEMORY:
        return OutcomeKind.MEMORY, b"", f"more than {limits.memory_bytes} bytes of memory"
    return OutcomeKind.RESULT, data, ""


def _name_signal(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = "unnamed"
    cause = ": perhaps this machine ran out of memory" if number == signal.SIGKILL else ""
    return f"signal {number} ({name}){cause}"


def _start(boot: Boot, *, control: socket.socket, log: int) -> tuple[subprocess.Popen[bytes], int]:
    """Run a fresh Python in a session of its own, so that Ctrl-C reaches only us.

    With it the process id of what runs inside bubblewrap, or 0.
    """
    if not sys.executable:
        raise MachineError("the sandbox needs a Python program, and `sys.executable` names none")
    program, ring = find_ring(boot.import_paths)
    boot = msgspec.structs.replace(boot, ring=ring)
    command = [*FLAGS, BOOT_CODE, msgspec.json.encode(boot).decode(), *boot.import_paths]
    if program is None:
        return _spawn([sys.executable, *command], control=control, log=log), 0
    reader, writer = os.pipe()
    try:
        outer = [*make_arguments(program, boot.import_paths), "--info-fd", str(writer)]
        process = _spawn(
            [*outer, python_program(), *command], control=control, log=log, passed=(writer,)
        )
    finally:
        os.close(writer)
        inner = read_pid(reader)
        os.close(reader)
    return process, inner


def _spawn(
    command: list[str], *, control: socket.socket, log: int, passed: tuple[int, ...] = ()
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=control.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=log,
        env=make_environment(),
        cwd="/",
        start_new_session=True,
        pass_fds=passed,
    )


def _fill(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def drain(pipe: int, frame: FrameReader) -> OutcomeKind | None:
    """Take what is left in the pipe of a child that is gone, without waiting for more."""
    os.set_blocking(pipe, False)
    # A channel of which not all was read at the other end is reset.
    with suppress(BlockingIOError, ConnectionError):
        while chunk := os.read(pipe, CHUNK_BYTES):
            frame.feed(chunk)
            if frame.is_over:
                return OutcomeKind.OVERSIZE
    return None
