"""What escapes share: system calls by number, what is open, and folders that they aim at.

A kernel-side module: imported by the warmed process under the name `probing`, from this folder, and
handed to the judge beside an escape.
"""

import ctypes
import os
from collections.abc import Iterator

import nki_agent.sandbox

LIBC = ctypes.CDLL(None, use_errno=True)
PACKAGE = os.path.dirname(nki_agent.sandbox.__path__[0])  # noqa: PTH120 - no file is touched
ROOT = PACKAGE + "/../.."
HOME = os.path.expanduser("~")  # noqa: PTH111 - a text is wanted


def call(number: int, *arguments: int) -> int:
    """A system call; OSError where it fails."""
    words = [ctypes.c_long(argument) for argument in arguments]
    result = int(LIBC.syscall(ctypes.c_long(number), *words))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def of(x86_64: int, aarch64: int) -> int:
    """The number of a call on this machine."""
    return x86_64 if os.uname().machine == "x86_64" else aarch64


def descriptors() -> Iterator[int]:
    """What is open; the highest is the pipe for the result."""
    for number in range(64):
        try:
            os.fstat(number)
        except OSError:
            continue
        yield number
