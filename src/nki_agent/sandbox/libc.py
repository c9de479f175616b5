"""The few calls of the C library that Python does not wrap; a failure is an OSError."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Final, get_args

from nki_agent.sandbox.syscalls import MEMFD_CREATE, PIDFD_OPEN, Machine

LIBC: Final = ctypes.CDLL(None, use_errno=True)
"""Loaded once: a child has no right to load anything."""
LIBC.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
LIBC.syscall.restype = ctypes.c_long

CLOSE_ON_EXEC: Final = 1
"""MFD_CLOEXEC."""


def call_prctl(option: int, value: int = 0, pointer: int = 0) -> int:
    """`prctl`: one setting of this process."""
    return _require(LIBC.prctl(option, value, pointer, 0, 0), "prctl")


def call_unshare(flags: int) -> None:
    """`unshare`: leave the parent's namespaces."""
    _require(LIBC.unshare(flags), "unshare")


def call_number(number: int, *arguments: bytes | int | None) -> int:
    """A system call by its number; integers go as 64-bit words, bytes as a pointer."""
    words = [
        ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments
    ]
    return _require(LIBC.syscall(ctypes.c_long(number), *words), f"system call {number}")


def open_process(pid: int) -> int:
    """A descriptor that becomes readable when the process ends (not in every build of `os`)."""
    return call_number(PIDFD_OPEN, pid, 0)


def open_memory_file() -> int:
    """An empty file in memory, closed on exec (not in every build of `os`)."""
    return call_number(MEMFD_CREATE[find_machine()], b"nki-agent", CLOSE_ON_EXEC)


def find_machine() -> Machine:
    """The machine type, among those whose call numbers are known; else OSError."""
    name = platform.machine()
    for known in get_args(Machine):
        if name == known:
            return known  # type: ignore[no-any-return]
    raise OSError(f"no system-call table for {name}")


def _require(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{os.strerror(code)} ({what})")
    return result
