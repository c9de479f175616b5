"""Become an ordinary user, and a machine that lacks layers: the other half of where this runs.

As root, Python and this project may lie in a folder that only root may enter. A mount namespace of
this process alone lays an open folder over it, with what is needed inside; nothing outside changes.
"""

import ctypes
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from nki_agent.sandbox.jail import NOBODY, PR_SET_NO_NEW_PRIVS, drop_user
from nki_agent.sandbox.libc import LIBC, call_prctl, call_unshare, find_machine
from nki_agent.sandbox.seccomp import (
    ALLOW,
    ARGUMENTS_OFFSET,
    INSTRUCTION,
    JUMP_AT_LEAST,
    JUMP_EQUAL,
    LOAD,
    NUMBER_OFFSET,
    PR_SET_SECCOMP,
    REFUSE,
    RETURN,
    Filter,
)
from tests.source import ROOT

CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
PRCTL = {"x86_64": 157, "aarch64": 167}
LANDLOCK_FIRST, LANDLOCK_END = 444, 447


def become_ordinary() -> None:
    """From root to nobody, able to read Python and this project; OSError where that can't be."""
    needed = {ROOT, Path(sys.prefix), Path(sys.base_prefix)}
    call_unshare(CLONE_NEWNS)
    _mount(b"none", b"/", b"", MS_REC | MS_PRIVATE)
    for folder in _find_private(needed):
        _open_up(folder, [path for path in needed if path.is_relative_to(folder)])
    drop_user(own=False)
    assert os.getuid() == NOBODY


def lose_landlock() -> None:
    """Refuse Landlock's calls to this process and all that it starts."""
    _filter(
        [
            (JUMP_AT_LEAST, 0, 2, LANDLOCK_FIRST),
            (JUMP_AT_LEAST, 1, 0, LANDLOCK_END),
            (RETURN, 0, 0, REFUSE),
        ]
    )


def lose_seccomp() -> None:
    """Refuse further filters; to be called last."""
    _filter(
        [
            (JUMP_EQUAL, 0, 3, PRCTL[find_machine()]),
            (LOAD, 0, 0, ARGUMENTS_OFFSET),
            (JUMP_EQUAL, 0, 1, PR_SET_SECCOMP),
            (RETURN, 0, 0, REFUSE),
        ]
    )


def _filter(steps: list[tuple[int, int, int, int]]) -> None:
    program = [(LOAD, 0, 0, NUMBER_OFFSET), *steps, (RETURN, 0, 0, ALLOW)]
    call_prctl(PR_SET_NO_NEW_PRIVS, 1)
    Filter(b"".join(INSTRUCTION.pack(*step) for step in program)).apply()


def _find_private(paths: Iterable[Path]) -> Iterator[Path]:
    """The outermost folders on the way to the paths that others may not enter."""
    found: set[Path] = set()
    for path in paths:
        for folder in reversed(path.parents):
            if not folder.stat().st_mode & stat.S_IXOTH:
                found.add(folder)
                break
    yield from sorted(found)


def _open_up(folder: Path, inside: list[Path]) -> None:
    """Lay an empty folder over this one, then the needed ones inside it."""
    handles = {path: os.open(path, os.O_PATH) for path in inside}
    _mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, b"mode=755")
    for path, handle in handles.items():
        path.mkdir(parents=True, exist_ok=True)
        _mount(f"/proc/self/fd/{handle}".encode(), str(path).encode(), b"", MS_BIND | MS_REC)


def _mount(source: bytes, target: bytes, kind: bytes, flags: int, data: bytes = b"") -> None:
    if LIBC.mount(source, target, kind, ctypes.c_ulong(flags), data):
        raise OSError(ctypes.get_errno(), f"mount {target.decode()}")
