"""Ctrl-C of a command: at once while nothing is held, else as KeyboardInterrupt.

Law: compiled modules answer an interrupt while they load with an error of their own, or lose it; so
one that comes inside such an import waits for its end. It doesn't wait for ever, and a second one
doesn't wait at all.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

INTERRUPTED = 130
"""The exit code; the shells' own for it."""
LOOK_S = 0.02
"""How often the end of an import is looked for."""
LOOKS_MAX = 500
_LOADER = "ExtensionFileLoader."


@dataclass(slots=True)
class _State:
    num_come: int = 0
    num_held: int = 0
    num_looks: int = 0


_STATE = _State()


def install() -> None:
    """Take interrupts from now on, unless this process was told to ignore them."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _take)
        signal.signal(signal.SIGALRM, _look_again)


@contextmanager
def held() -> Iterator[None]:
    """While there is something to end in order, an interrupt is raised."""
    _STATE.num_held += 1
    try:
        yield
    finally:
        _STATE.num_held -= 1


def has_come() -> bool:
    """Whether one came since the start: what failed after it failed of it."""
    return _STATE.num_come > 0


def _take(_signal: int, frame: FrameType | None) -> None:
    _STATE.num_come += 1
    _STATE.num_looks = 0
    if _STATE.num_come > 1:
        _STATE.num_looks = LOOKS_MAX
    _deliver(frame)


def _look_again(_signal: int, frame: FrameType | None) -> None:
    _STATE.num_looks += 1
    _deliver(frame)


def _deliver(frame: FrameType | None) -> None:
    if not _STATE.num_held:
        leave()
    if _STATE.num_looks < LOOKS_MAX and _loads_compiled(frame):
        signal.setitimer(signal.ITIMER_REAL, LOOK_S)
        return
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    raise KeyboardInterrupt


def leave() -> None:
    """End this process as interrupted, without a look at what its modules hold."""
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"interrupted\n")
    os._exit(INTERRUPTED)


def _loads_compiled(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_qualname.startswith(_LOADER):
            return True
        frame = frame.f_back
    return False
