"""Slow links on one machine: this process's connections to the others get a limit of their own.

Law: the limit is the operating system's (pacing of TCP, Linux), so whatever a library sends is held
to it; bytes are those that the other side has confirmed. Only for measurements and tests.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

MAX_PACING_RATE: Final = 47
"""SO_MAX_PACING_RATE, which Python's socket module does not name."""
BITS: Final = 8
BYTES_ACKED: Final = 120
"""Where `struct tcp_info` of Linux has tcpi_bytes_acked, a u64."""
INFO_BYTES: Final = 128


def pace(bits_per_s: int) -> int:
    """Limit what this process sends over each of its connections; how many there are."""
    count = 0
    for connection in _connections():
        connection.setsockopt(socket.SOL_SOCKET, MAX_PACING_RATE, bits_per_s // BITS)
        count += 1
    return count


def count_sent_bytes() -> int:
    """What has arrived of all that this process has sent over its open connections."""
    return sum(
        struct.unpack_from(
            "=Q", c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES), BYTES_ACKED
        )[0]
        for c in _connections()
    )


def _connections() -> Iterator[socket.socket]:
    """A handle of each TCP connection of this process."""
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if not str(entry.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as found:
                is_tcp = found.type == socket.SOCK_STREAM and found.family in (
                    socket.AF_INET,
                    socket.AF_INET6,
                )
                if is_tcp and _is_connected(found):
                    yield found


def _is_connected(connection: socket.socket) -> bool:
    try:
        connection.getpeername()
    except OSError:
        return False
    return True
