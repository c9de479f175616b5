"""When a call may use an earlier trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_agent.nki.current.jit import RUNTIME
from nki_agent.runtime.launch import Launcher
from tests.runtime.calling import run

KERNEL = """\
from nki_agent.nki.current.jit import RUNTIME
LAUNCHER = RUNTIME.launcher.__self__
import math
SCALE = 2.0
TABLE = {"scale": [1.0, 2.0]}
def helper(t):
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=SCALE)
def make(step):
    @nki.jit
    def kernel(x, size=4, name=None):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        helper(t)
        for i in range(step):
            nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=TABLE["scale"][0])
        nl.store(out, t)
        return out
    return kernel
kernel = make(1)
def traces(*calls):
    before = LAUNCHER.num_traces
    for call in calls:
        call()
    return LAUNCHER.num_traces - before
def call():
    return kernel(x)
assert traces(call) == 1 and (call() == 2 * x + 1).all()
"""


def test_second_call_uses_the_trace_and_its_own_data(tmp_path: Path) -> None:
    text = KERNEL + (
        "assert traces(call, call, lambda: kernel(x + 1)) == 0\n"
        "assert (kernel(x + 5) == 2 * (x + 5) + 1).all()\n"
        "assert (kernel(x) == 2 * x + 1).all()\n"
    )
    assert run(tmp_path, text) == 0


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("SCALE = 3.0", "3 * x + 1"),
        ("SCALE = 2", "2 * x + 1"),
        ("TABLE['scale'][0] = 5.0", "2 * x + 5"),
        ("def helper(t):\n    nisa.memset(t, 7.0)", "0 * x + 8"),
        ("kernel = make(3)", "2 * x + 3"),
        ("x = x[:2]", "2 * x + 1"),
        ("x = x.astype(np.float16)", "2 * x + 1"),
        ("range = lambda n: [0] * (2 * n)", "2 * x + 2"),
    ],
)
def test_everything_that_is_read_is_in_the_key(tmp_path: Path, change: str, expected: str) -> None:
    text = KERNEL + f"{change}\nassert traces(call) == 1\nassert (call() == {expected}).all()\n"
    assert run(tmp_path, text) == 0


def test_static_arguments_are_in_the_key(tmp_path: Path) -> None:
    text = KERNEL + (
        "calls = [lambda: kernel(x, 5), lambda: kernel(x, 5.0), lambda: kernel(x, True),"
        " lambda: kernel(x, 1), lambda: kernel(x, (1, 2)), lambda: kernel(x, name='a')]\n"
        "assert traces(*calls) == 6 and traces(*calls) == 0\n"
    )
    assert run(tmp_path, text) == 0


def test_environment_is_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NKI_PRECISE_FP", raising=False)
    text = KERNEL + (
        "import os\nos.environ['NEURON_PLATFORM_TARGET_OVERRIDE'] = 'trn3'\n"
        "assert traces(call) == 1\nos.environ['NKI_PRECISE_FP'] = '0'\nassert traces(call) == 1\n"
        "del os.environ['NEURON_PLATFORM_TARGET_OVERRIDE'], os.environ['NKI_PRECISE_FP']\n"
        "assert traces(call) == 0\n"
    )
    assert run(tmp_path, text) == 0


@pytest.mark.parametrize(
    "line",
    [
        "print('here')",
        "np.random.rand()",
        "import time",
        "THING.x",
        "THING.method()",
        "json.dumps(1)",
        "globals()",
        "kernel.note",
        "np.load(PATH)",
        "read(PATH)",
        "draw()",
    ],
)
def test_code_whose_effect_no_key_can_hold_is_traced_each_time(tmp_path: Path, line: str) -> None:
    text = KERNEL + (
        "import json\nclass Thing:\n    x = 1\n    def method(self):\n        return SCALE\n"
        "THING = Thing()\nkernel.note = 1\nPATH = sys.argv[0] + '.npy'\n"
        "np.save(PATH, x)\nfrom numpy import load as read\nfrom numpy.random import rand as draw\n"
        f"def helper(t):\n    {line}\n"
        "assert traces(call, call) == 2\n"
    )
    assert run(tmp_path, text) == 0


def test_only_some_traces_are_kept(tmp_path: Path) -> None:
    text = KERNEL + (
        "calls = [lambda n=n: kernel(x, n) for n in range(20, 40)]\n"
        "assert traces(*calls) == 20 and traces(*calls) == 20\n"
        "assert len(LAUNCHER._kept) <= 8\n"
    )
    assert run(tmp_path, text) == 0


def test_failed_call_is_judged_again(tmp_path: Path) -> None:
    text = KERNEL + (
        "SCALE = 'a'\n"
        "for _ in range(2):\n"
        "    try:\n        call()\n"
        "    except Exception as error:\n        assert 'NK308' in str(error)\n"
        "    else:\n        raise AssertionError\n"
    )
    assert run(tmp_path, text) == 0


def test_launcher_is_gone_after_the_script(tmp_path: Path) -> None:
    assert run(tmp_path, KERNEL) == 0
    assert RUNTIME.launcher is None
    assert Launcher().num_traces == 0
