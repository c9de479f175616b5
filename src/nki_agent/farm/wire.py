"""What the caller, the prepared process and a worker say to each other.

Law: a message is one packet with its whole content in an anonymous file in memory, so nobody ever
holds half of one and no sender waits for a slow reader. Both ends are trusted: no kernel code runs
in any of these processes. Text travels as bytes, since a model's source can hold half a surrogate
pair.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.farm.job import Ask, End, Job
from nki_agent.sandbox.child import read_all
from nki_agent.sandbox.libc import open_memory_file
from nki_agent.sandbox.outcome import MIB, Limits
from nki_agent.task.task import Scope
from nki_agent.verify.kernel import Kernel

PACKET_BYTES: Final = 1 << 16
SURROGATES: Final = "surrogatepass"
Message = TypeVar("Message", bound=msgspec.Struct)


class FarmLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs and workers may use."""

    job_seconds: float = 300.0
    """Wall time of one attempt; the worker is then killed. The slowest verdict takes a minute."""
    attempts: int = 3
    """Workers that a job may itself cost before it is `Lost`; those that others kill aside."""
    growth_bytes: int = 512 * MIB
    """Resident memory that a worker may gain over its birth; with more it is replaced."""
    address_bytes: int | None = None
    """Address space that a worker may gain: past it the machine counts as out of memory."""
    tasks_kept: int = 8
    """Loaded tasks that a worker keeps; loading one takes as long as some ten verdicts."""
    allow_unsandboxed: bool = False
    """Judge even where nothing can hold a kernel."""
    trace: Limits | None = None
    """Limits of tracing; None are the judge's own."""


class Boot(msgspec.Struct, frozen=True, kw_only=True):
    """What the prepared process is told on its command line."""

    limits: FarmLimits


class Prepared(msgspec.Struct, frozen=True, kw_only=True, tag="prepared"):
    """The prepared process is ready, or says why it can't be."""

    failure: str = ""


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """A worker is gone; `failure` where it never was."""

    token: int
    wait_status: int = 0
    failure: str = ""


Report = Prepared | Ended


class Fork(msgspec.Struct, frozen=True, kw_only=True, tag="fork"):
    """Asks for a worker; its socket comes with the packet."""

    token: int


class Kill(msgspec.Struct, frozen=True, kw_only=True, tag="kill"):
    """Asks that a worker be killed."""

    token: int


Wish = Fork | Kill


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A job as a worker gets it."""

    files: tuple[tuple[bytes, bytes], ...]
    main: bytes
    task: bytes
    is_task_trusted: bool
    target: Target
    ask: Ask
    scope: Scope
    surface: Surface
    root_seed: int | None

    @classmethod
    def from_job(cls, job: Job) -> Order:
        """The job's part that a worker needs."""
        return cls(
            files=tuple((_to_bytes(n), _to_bytes(t)) for n, t in job.kernel.files.items()),
            main=_to_bytes(job.kernel.main),
            task=os.fsencode(job.task.absolute()),
            is_task_trusted=job.is_task_trusted,
            target=job.target,
            ask=job.ask,
            scope=job.scope,
            surface=job.surface,
            root_seed=job.root_seed,
        )

    @property
    def kernel(self) -> Kernel:
        """The kernel as it was given."""
        return Kernel({_to_text(n): _to_text(t) for n, t in self.files}, _to_text(self.main))

    @property
    def path(self) -> Path:
        """The task's file."""
        return Path(os.fsdecode(self.task))


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's packet: `end` is None once, when it is ready for its first order."""

    end: End | None = None
    growth_bytes: int = 0


def _to_bytes(text: str) -> bytes:
    return text.encode(errors=SURROGATES)


def _to_text(data: bytes) -> str:
    return data.decode(errors=SURROGATES)


def send(control: socket.socket, data: bytes) -> None:
    """Send one message; OSError where nobody is there any more."""
    file = open_memory_file()
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        socket.send_fds(control, [b"M"], [file])
    finally:
        os.close(file)


def receive(control: socket.socket, kind: type[Message]) -> Message | None:
    """The next message; None when the other end is gone. Waits unless the socket does not."""
    try:
        packet, descriptors, _, _ = socket.recv_fds(control, PACKET_BYTES, 1)
    except ConnectionError:
        return None
    try:
        if not packet or not descriptors:
            return None
        return msgspec.msgpack.decode(read_all(descriptors[0]), type=kind)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
