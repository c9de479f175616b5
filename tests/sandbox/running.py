"""An entry for the tests: runs source that defines `run`, as the tracer runs a kernel.

It is imported by the warmed process under the name `running`, from this folder.
"""

PREAMBLE = """
import ctypes, errno, mmap, os, resource, signal, socket, subprocess, sys, threading, time
import fcntl as FCNTL
import numpy as np

LIBC = ctypes.CDLL(None, use_errno=True)

def call(number, *arguments):
    result = LIBC.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments])
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def of(x86_64, aarch64):
    return x86_64 if os.uname().machine == "x86_64" else aarch64

def descriptors():
    for fd in range(64):
        try: os.fstat(fd)
        except OSError: continue
        yield fd
"""


def run_source(payload: bytes) -> bytes:
    """What `run()` gives: bytes as they are, anything else printed."""
    names: dict[str, object] = {"__name__": "kernel"}
    exec(PREAMBLE + payload.decode(), names)
    run = names["run"]
    assert callable(run)
    value = run()
    return value if isinstance(value, bytes) else repr(value).encode()


def echo(payload: bytes) -> bytes:
    """The payload."""
    return payload


def give_text(payload: bytes) -> str:
    """Not what an entry may give."""
    return payload.decode()


def remember(payload: bytes, seen: list[bytes] = []) -> bytes:  # noqa: B006 - what must not last
    """How many calls this process has seen, which is always one."""
    seen.append(payload)
    return str(len(seen)).encode()


NOT_CALLABLE = 3
