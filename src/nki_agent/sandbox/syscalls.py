"""System calls that a running kernel needs, by number, for each machine type.

Law: what is not listed is refused. The names come from tracing CPython 3.11 and NumPy 2.4 on glibc
(import from disk, arithmetic, `MemoryError`, abort); the numbers are those of the Linux headers
`asm/unistd_64.h` (x86_64) and `asm-generic/unistd.h` (aarch64). -1: the machine lacks the call.
Left out on purpose though Python knows them: `readlink` (names in folders it may not read),
`tgkill` and `kill` (signals), `dup` (nothing to copy), `prctl`, `set_tid_address`, `memfd_create`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, Literal

Machine = Literal["x86_64", "aarch64"]

PLAIN: Final = MappingProxyType(
    {
        "access": (21, -1),
        "arch_prctl": (158, -1),
        "brk": (12, 214),
        "clock_getres": (229, 114),
        "clock_gettime": (228, 113),
        "clock_nanosleep": (230, 115),
        "close": (3, 57),
        "exit": (60, 93),
        "exit_group": (231, 94),
        "faccessat": (269, 48),
        "faccessat2": (439, 439),
        "fadvise64": (221, 223),
        "fstat": (5, 80),
        "futex": (202, 98),
        "getcpu": (309, 168),
        "getcwd": (79, 17),
        "getdents64": (217, 61),
        "getegid": (108, 177),
        "geteuid": (107, 175),
        "getgid": (104, 176),
        "getpid": (39, 172),
        "getppid": (110, 173),
        "getrandom": (318, 278),
        "getresgid": (120, 150),
        "getresuid": (118, 148),
        "getrlimit": (97, 163),
        "getrusage": (98, 165),
        "gettid": (186, 178),
        "gettimeofday": (96, 169),
        "getuid": (102, 174),
        "lseek": (8, 62),
        "lstat": (6, -1),
        "madvise": (28, 233),
        "membarrier": (324, 283),
        "mincore": (27, 232),
        "mmap": (9, 222),
        "mprotect": (10, 226),
        "mremap": (25, 216),
        "munmap": (11, 215),
        "nanosleep": (35, 101),
        "newfstatat": (262, 79),
        "poll": (7, -1),
        "ppoll": (271, 73),
        "pread64": (17, 67),
        "pselect6": (270, 72),
        "read": (0, 63),
        "readv": (19, 65),
        "restart_syscall": (219, 128),
        "rseq": (334, 293),
        "rt_sigaction": (13, 134),
        "rt_sigprocmask": (14, 135),
        "rt_sigreturn": (15, 139),
        "sched_getaffinity": (204, 123),
        "sched_yield": (24, 124),
        "select": (23, -1),
        "set_robust_list": (273, 99),
        "sigaltstack": (131, 132),
        "stat": (4, -1),
        "statx": (332, 291),
        "sysinfo": (99, 179),
        "time": (201, -1),
        "times": (100, 153),
        "uname": (63, 160),
        "write": (1, 64),
        "writev": (20, 66),
    }
)
"""Allowed whatever the arguments are."""

GUARDED: Final = MappingProxyType(
    {
        "fcntl": (72, 25),
        "ioctl": (16, 29),
        "open": (2, -1),
        "openat": (257, 56),
        "prlimit64": (302, 261),
    }
)
"""Allowed with harmless arguments only; `seccomp` says which."""

AUDIT_ARCH: Final = MappingProxyType({"x86_64": 0xC000003E, "aarch64": 0xC00000B7})
"""`AUDIT_ARCH_*` of linux/audit.h: a call through another machine's table kills the process."""

FIRST_NEW: Final = MappingProxyType({"x86_64": 335, "aarch64": 294})
"""Calls from here on are newer than Linux 5.0; glibc tries them and falls back on ENOSYS."""

LANDLOCK_CREATE_RULESET: Final = 444
LANDLOCK_ADD_RULE: Final = 445
LANDLOCK_RESTRICT_SELF: Final = 446
PIDFD_OPEN: Final = 434
MEMFD_CREATE: Final = MappingProxyType({"x86_64": 319, "aarch64": 279})
CAPSET: Final = MappingProxyType({"x86_64": 126, "aarch64": 91})


def number_of(name: str, machine: Machine) -> int:
    """The number of a listed call, or -1 where the machine lacks it."""
    x86_64, aarch64 = PLAIN[name] if name in PLAIN else GUARDED[name]
    match machine:
        case "x86_64":
            return x86_64
        case "aarch64":
            return aarch64
