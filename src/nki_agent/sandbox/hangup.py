"""A process that prepares for long ends at once when the one it prepares for is gone.

Law: it looks for that by its socket, not by its parent: bubblewrap may stand between them, and
Linux would also tell of the end of a mere thread. Once it is prepared, it reads the socket itself.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ended_at_hangup(control: socket.socket) -> Iterator[None]:  # pragma: no cover - in the zygote
    """While the block runs, end this process when the other end of the socket is closed."""
    poller = select.poll()
    poller.register(control, 0)

    def look(number: int, frame: FrameType | None) -> None:
        del number, frame
        if poller.poll(0):
            os._exit(0)

    # With a handler of our own, as the first process of a namespace ignores what would end others.
    before = signal.signal(signal.SIGIO, look)
    flags = fcntl.fcntl(control, fcntl.F_GETFL)
    fcntl.fcntl(control, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(control, fcntl.F_SETFL, flags | os.O_ASYNC)
    look(signal.SIGIO, None)
    try:
        yield
    finally:
        fcntl.fcntl(control, fcntl.F_SETFL, flags)
        signal.signal(signal.SIGIO, before)
