"""Landlock: a kernel reads the Python library and nothing else of the file system.

Law: every right that the running Linux knows is taken, then reading alone is given back beneath
the named paths. No write, no execution, no TCP (ABI 4), no device control (ABI 5), no signal or
abstract socket to a process outside (ABI 6). Not covered: `stat` of a path, which tells that a file
exists; the uid layer and the folders' own modes cover that.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable
from typing import Final

from nki_agent.sandbox.libc import call_number
from nki_agent.sandbox.syscalls import (
    LANDLOCK_ADD_RULE,
    LANDLOCK_CREATE_RULESET,
    LANDLOCK_RESTRICT_SELF,
)

READ_FILE: Final = 1 << 2
READ_DIR: Final = 1 << 3
RULE_PATH_BENEATH: Final = 1
ASK_VERSION: Final = 1

FILE_RIGHTS: Final = (
    (5, (1 << 16) - 1),
    (3, (1 << 15) - 1),
    (2, (1 << 14) - 1),
    (1, (1 << 13) - 1),
)
"""All file rights of an ABI and later ones, newest first (linux/landlock.h)."""
NET_ABI, ALL_NET = 4, 0b11
SCOPE_ABI, ALL_SCOPES = 6, 0b11


def find_abi() -> int:
    """The ABI version that Linux offers; OSError where Landlock is not built in or is off."""
    return call_number(LANDLOCK_CREATE_RULESET, None, 0, ASK_VERSION)


def make_ruleset(readable: Iterable[str]) -> int:
    """A descriptor of the rules, which a fork inherits. Paths that are missing are skipped."""
    abi = find_abi()
    words = [next(rights for since, rights in FILE_RIGHTS if abi >= since)]
    if abi >= NET_ABI:
        words.append(ALL_NET)
    if abi >= SCOPE_ABI:
        words.append(ALL_SCOPES)
    attributes = struct.pack(f"={len(words)}Q", *words)
    ruleset = call_number(LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    for path in readable:
        _allow_reading(ruleset, path)
    return ruleset


def apply_ruleset(ruleset: int) -> None:
    """Restrict this process for good; `no_new_privs` must be set."""
    call_number(LANDLOCK_RESTRICT_SELF, ruleset, 0)


def describe() -> str:
    """What the ABI of this machine covers."""
    abi = find_abi()
    covered = ["files"]
    if abi >= NET_ABI:
        covered.append("TCP")
    if abi >= SCOPE_ABI:
        covered.append("signals and abstract sockets")
    return f"ABI {abi}: {', '.join(covered)}"


def _allow_reading(ruleset: int, path: str) -> None:
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        is_folder = stat.S_ISDIR(os.fstat(target).st_mode)
        rights = READ_FILE | READ_DIR if is_folder else READ_FILE
        rule = struct.pack("=Qi", rights, target)
        call_number(LANDLOCK_ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(target)
