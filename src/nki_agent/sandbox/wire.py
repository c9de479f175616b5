"""What the trusted process, the warmed process and a child say to each other.

Control socket (both ends trusted): one packet a message. `RUN` and the coded limits, with two
descriptors: the payload, and the pipe for the result; the answer is an `End` when the child is
gone. `KILL` ends the run in progress and is ignored when there is none.

Result pipe (written by a process that ran hostile code): `JAILED` before untrusted code runs, or
`FAILED` and a text. Then one frame: a kind, a ticket, the length, the bytes. A child can write any
bytes here; only what comes before `JAILED` is ours, so a kernel cannot feign a failure of the
machine.

`STAY` and the limits, with one descriptor: the child's end of a channel. It writes `JAILED` or
`FAILED` there as above; then each request is a ticket, a length and bytes, and each reply a frame,
until the channel is closed or `KILL` comes. The answer is an `End`, as for `RUN`. The ticket is
random and the reply repeats it: what was written for an earlier request, however late it comes, is
no answer to this one.

A warmed process for guests (long-lived children) takes `RUN` with the limits and one descriptor,
the guest's end of its channel, and answers `Begun`; `KILL` and a process id ends that guest. Each
guest's end is told once, unasked, as `Ended`. On the channel the guest writes `JAILED` or `FAILED`
as above; then requests and replies follow as for `STAY`.
"""

from __future__ import annotations

import os
import struct
from typing import Final

import msgspec

from nki_agent.sandbox.outcome import Layer, LayerState, Status

RUN: Final = b"R"
STAY: Final = b"S"
KILL: Final = b"K"
QUIT: Final = b"Q"
PACKET_BYTES: Final = 1 << 16

JAILED: Final = b"J"
FAILED: Final = b"F"
RESULT: Final = b"="
RAISED: Final = b"!"
MEMORY: Final = b"m"
FRAME_KINDS: Final = (RESULT, RAISED, MEMORY)

HEADER: Final = struct.Struct("<c8sQ")
"""Of a frame: kind, ticket, bytes of data."""
REQUEST: Final = struct.Struct("<8sQ")
"""Before a request: ticket, bytes of data."""
NO_TICKET: Final = bytes(8)
"""In the frame of a child that is asked but once."""
TEXT_BYTES: Final = 2048
"""Longest text that is taken from a child."""


class Boot(msgspec.Struct, frozen=True, kw_only=True):
    """What the warmed process is told on its command line; nothing secret."""

    entry: str
    preload: tuple[str, ...]
    import_paths: tuple[str, ...]
    """All that is on the import path beside the standard library."""
    own_packages: tuple[str, ...]
    """Packages of which a kernel may read only the parts that are loaded."""
    ring: LayerState = LayerState(Layer.BUBBLEWRAP, active=False, detail="not tried")
    """bubblewrap's state; where it is active, this process runs inside it."""
    warm_up: str = ""
    """A callable that is called once before the first fork, so that all it needs is loaded."""
    guests: bool = False
    """Whether children live on and answer requests; `entry` then gives what answers them."""


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """The first packet of a warmed process; `failure` says why it can't work."""

    status: Status = Status(())
    failure: str = ""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How a child ended; `failure` when it never began."""

    wait_status: int = 0
    cpu_seconds: float = 0.0
    max_rss_bytes: int = 0
    failure: str = ""


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag="begun"):
    """A guest was started, or why not."""

    pid: int = 0
    failure: str = ""


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """A guest is gone."""

    pid: int
    end: End


def make_ticket() -> bytes:
    """What no child can know before it is asked."""
    return os.urandom(len(NO_TICKET))


class FrameReader:
    """Collects what a child writes, and says when it writes more than it may."""

    def __init__(self, *, limit: int, ticket: bytes = NO_TICKET, is_jailed: bool = False) -> None:
        """Take at most `limit` bytes of data; a child that answered before was jailed then."""
        self._limit = limit
        self._ticket = ticket
        self._head = bytearray(JAILED if is_jailed else b"")
        self._chunks: list[bytes] = []
        self._num_bytes = 0
        self.is_over = False
        """The child announced or wrote more than the limit; the rest is not kept."""

    @property
    def is_jailed(self) -> bool:
        """Whether untrusted code began to run."""
        return self._head[:1] == JAILED

    @property
    def is_settled(self) -> bool:
        """Whether nothing that still comes can make it a frame, or a better one."""
        header = self._header()
        if header is None:
            return self.is_jailed and len(self._head) == len(JAILED) + HEADER.size
        return self._num_bytes >= header[1]

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes from the pipe."""
        missing = len(JAILED) + HEADER.size - len(self._head)
        if missing > 0:
            self._head += chunk[:missing]
            chunk = chunk[missing:]
        self._chunks.append(chunk)
        self._num_bytes += len(chunk)
        header = self._header()
        if max(self._num_bytes, header[1] if header else 0) > self._limit:
            self.is_over = True
            self._chunks.clear()

    def frame(self) -> tuple[bytes, bytes] | None:
        """Kind and data of a whole frame; None for anything else."""
        header = self._header()
        if header is None or self.is_over or header[1] != self._num_bytes:
            return None
        return header[0], b"".join(self._chunks)

    def text(self) -> str:
        """All that was written before the jail stood, as text."""
        data = bytes(self._head[1:]) + b"".join(self._chunks)
        return data[:TEXT_BYTES].decode(errors="replace")

    def _header(self) -> tuple[bytes, int] | None:
        """Kind and length of the data, once they are there, of a known kind and for this ticket."""
        if len(self._head) < len(JAILED) + HEADER.size or not self.is_jailed:
            return None
        kind, ticket, length = HEADER.unpack_from(self._head, len(JAILED))
        return (kind, length) if kind in FRAME_KINDS and ticket == self._ticket else None
