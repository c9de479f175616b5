"""A sandbox that runs source: the judge's own, with what escapes need imported beforehand."""

import inspect
import textwrap
from pathlib import Path

from nki_agent.sandbox.pool import Limits, Outcome, Sandbox
from nki_agent.verify import judge

FOLDER = Path(__file__).parent
ENTRY = "running:run_source"
PRELOAD = (
    *judge.PRELOAD,
    *("ctypes", "fcntl", "mmap", "probing", "resource", "signal", "socket", "subprocess"),
    "threading",
)
LIMITS = Limits(seconds=5.0, cpu_seconds=5, memory_bytes=512 << 20, result_bytes=1 << 20)

PREAMBLE = """
import ctypes, mmap, os, resource, signal, socket, sys, threading, time
import numpy as np
from probing import LIBC, call, descriptors, of
"""


def start_sandbox(*, allow_unsandboxed: bool = False) -> Sandbox:
    """A sandbox that runs source."""
    return Sandbox(
        ENTRY,
        limits=LIMITS,
        preload=PRELOAD,
        import_paths=(str(FOLDER),),
        allow_unsandboxed=allow_unsandboxed,
    )


def run_source(sandbox: Sandbox, body: str, *, limits: Limits = LIMITS) -> Outcome:
    """Run the body of a function."""
    indented = textwrap.indent(inspect.cleandoc(body), "    ")
    return sandbox.run(f"{PREAMBLE}\ndef run():\n{indented}\n".encode(), limits=limits)
