"""A real Ctrl-C at any moment of a command ends it with one line and the shells' code."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nki_agent.base.interrupts import INTERRUPTED

# What runs the tests in the background may ignore Ctrl-C, and its children inherit that.
HEED = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
START = f"{HEED}; from nki_agent.base.interrupts import install; install(); print('up', flush=True)"
MAIN = f"{START}; from nki_agent.__main__ import main; main()"
TASK = """
import time
import torch
import numpy

def reference(x):
    time.sleep(600)
    return x

def inputs():
    return [torch.randn(8, 8)]
"""
KERNEL = "import nki\n\n\n@nki.jit\ndef kernel(x):\n    return x\n"
DELAYS_S = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.1, 1.5, 2.0, 3.0)
PATIENCE_S = 40


def interrupt(code: str, *arguments: object, after_s: float) -> tuple[int, str]:
    """Exit code and stderr of a process that gets one SIGINT."""
    with subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        time.sleep(after_s)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, err


@pytest.mark.parametrize("after_s", DELAYS_S)
def test_interrupt_at_any_moment_is_one_line(tmp_path: Path, after_s: float) -> None:
    task, kernel = tmp_path / "task.py", tmp_path / "kernel.py"
    task.write_text(TASK)
    kernel.write_text(KERNEL)
    given = interrupt(MAIN, "verify", kernel, "--task", task, after_s=after_s)
    assert given == (INTERRUPTED, "interrupted\n")


SLOW_MODULE = f"""
{START}
import sys, time
from importlib.machinery import ExtensionFileLoader
from nki_agent.base.interrupts import held

class Loader(ExtensionFileLoader):
    pass

def exec_module(self):
    try:
        time.sleep(0.5)
    except KeyboardInterrupt:
        print("lost", file=sys.stderr)

exec_module.__code__ = exec_module.__code__.replace(co_qualname="ExtensionFileLoader.exec_module")
try:
    with held():
        exec_module(None)
        time.sleep(60)
except KeyboardInterrupt:
    sys.exit("raised")
"""


def test_interrupt_in_a_compiled_module_waits_for_its_end() -> None:
    assert interrupt(SLOW_MODULE, after_s=0.2) == (1, "raised\n")


def test_ignored_interrupts_stay_ignored() -> None:
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from nki_agent.base.interrupts import install; install(); print('up', flush=True)\n"
        "import time; time.sleep(0.5)"
    )
    assert interrupt(code, after_s=0.1) == (0, "")
