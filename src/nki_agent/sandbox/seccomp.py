"""The system-call filter of a running kernel, as a classic BPF program.

Law: an allow-list (`syscalls`). A kernel computes, reads the files that Landlock lets it read, and
writes to what is open already. No process, thread, socket, signal, or write to a file; where
Landlock is missing, no open at all. A refused call gives EPERM; one that is newer than the list
gives ENOSYS, on which glibc falls back (`clone3`: EPERM there would break its fallback). A call
through another machine's table (int 0x80, x32) kills the process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable
from typing import Final

from nki_agent.sandbox.libc import call_prctl, find_machine
from nki_agent.sandbox.syscalls import AUDIT_ARCH, FIRST_NEW, PLAIN, Machine, number_of

PR_SET_SECCOMP: Final = 22
SECCOMP_MODE_FILTER: Final = 2

LOAD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""BPF codes: load a word of `seccomp_data`, three conditional jumps, return an action."""

ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000
REFUSE: Final = 0x00050000 | errno.EPERM
UNKNOWN: Final = 0x00050000 | errno.ENOSYS

NUMBER_OFFSET, ARCH_OFFSET, ARGUMENTS_OFFSET = 0, 4, 16
"""Fields of `seccomp_data`; each argument is 8 bytes, low word first on both machines."""

X32_BIT: Final = 0x40000000
WRITE_FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
FCNTL_COMMANDS: Final = (1, 2, 3, 1030)
"""F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC. F_SETOWN and F_SETSIG would send signals."""
IOCTL_COMMANDS: Final = (0x5401, 0x5413, 0x5450, 0x5451)
"""TCGETS and TIOCGWINSZ (`isatty`, terminal size), FIONCLEX and FIOCLEX."""

INSTRUCTION: Final = struct.Struct("=HBBI")
Step = tuple[int, int, int, int]


class _Program(ctypes.Structure):
    """`struct sock_fprog` of the kernel."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def make_filter(machine: Machine, *, may_open: bool) -> bytes:
    """The filter as an array of `sock_filter`."""
    steps: list[Step] = [
        (LOAD, 0, 0, ARCH_OFFSET),
        (JUMP_EQUAL, 1, 0, AUDIT_ARCH[machine]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER_OFFSET),
    ]
    if machine == "x86_64":
        steps += [(JUMP_AT_LEAST, 0, 1, X32_BIT), (RETURN, 0, 0, KILL)]
    for name in PLAIN:
        steps += _when(number_of(name, machine), [(RETURN, 0, 0, ALLOW)])
    for name, body in _guards(may_open=may_open).items():
        steps += _when(number_of(name, machine), body)
    steps += _when_at_least(FIRST_NEW[machine], [(RETURN, 0, 0, UNKNOWN)])
    steps.append((RETURN, 0, 0, REFUSE))
    return b"".join(INSTRUCTION.pack(*step) for step in steps)


class Filter:
    """A filter in the form that Linux takes, made once so that a child is quick."""

    def __init__(self, program: bytes) -> None:
        """Keep an array of `sock_filter` in memory that does not move."""
        self._buffer = ctypes.create_string_buffer(program, len(program))
        length = len(program) // INSTRUCTION.size
        self._description = _Program(length, ctypes.cast(self._buffer, ctypes.c_void_p))
        self._address = ctypes.addressof(self._description)

    def apply(self) -> None:
        """Put the filter on this thread for good; `no_new_privs` must be set."""
        call_prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, self._address)


def make_native_filter(*, may_open: bool) -> Filter:
    """The filter for the machine that this runs on; OSError where there is none."""
    return Filter(make_filter(find_machine(), may_open=may_open))


def _guards(*, may_open: bool) -> dict[str, list[Step]]:
    """For each guarded call, what to answer by its arguments."""
    return {
        "open": _unless_bits(1, WRITE_FLAGS) if may_open else [(RETURN, 0, 0, REFUSE)],
        "openat": _unless_bits(2, WRITE_FLAGS) if may_open else [(RETURN, 0, 0, REFUSE)],
        "fcntl": _only_values(1, FCNTL_COMMANDS),
        "ioctl": _only_values(1, IOCTL_COMMANDS),
        # With a null first and third argument it only reads a limit of its own process.
        "prlimit64": [
            *(step for number in (0, 2) for step in _require_null(number)),
            (RETURN, 0, 0, ALLOW),
        ],
    }


def _when(number: int, body: list[Step]) -> list[Step]:
    """Run `body`, which returns, when the call has this number."""
    return [] if number < 0 else [(JUMP_EQUAL, 0, len(body), number), *body]


def _when_at_least(number: int, body: list[Step]) -> list[Step]:
    """Run `body`, which returns, when the call has this number or a higher one."""
    return [(JUMP_AT_LEAST, 0, len(body), number), *body]


def _unless_bits(argument: int, mask: int) -> list[Step]:
    """Allow when no bit of the mask is set."""
    return [
        (LOAD, 0, 0, ARGUMENTS_OFFSET + 8 * argument),
        (JUMP_ANY_BIT, 0, 1, mask),
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, ALLOW),
    ]


def _only_values(argument: int, values: Iterable[int]) -> list[Step]:
    """Allow these values of an argument; the kernel looks at its low word only."""
    steps: list[Step] = [(LOAD, 0, 0, ARGUMENTS_OFFSET + 8 * argument)]
    for value in values:
        steps += [(JUMP_EQUAL, 0, 1, value), (RETURN, 0, 0, ALLOW)]
    return [*steps, (RETURN, 0, 0, REFUSE)]


def _require_null(argument: int) -> list[Step]:
    """Refuse unless both words of an argument are zero."""
    return [
        step
        for word in (0, 4)
        for step in (
            (LOAD, 0, 0, ARGUMENTS_OFFSET + 8 * argument + word),
            (JUMP_EQUAL, 1, 0, 0),
            (RETURN, 0, 0, REFUSE),
        )
    ]
