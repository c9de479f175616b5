"""Kernels on arrays in the user's own process."""

from __future__ import annotations

import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from nki_agent.base.errors import KernelError
from nki_agent.nki.current.modules import installed
from nki_agent.runtime.script import run_script

SCRIPT = """\
import sys
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl
from nki.language import add

SCALE = 2.0


@nki.jit
def double(x, size=4, flag=None):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=SCALE)
    nl.store(out, t)
    return out


"""


def run(tmp_path: Path, text: str, *args: str) -> int:
    """The exit code of a script that defines `double` and then does this."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT + text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run_script(path, args)


def test_simulate_gives_numpy_for_numpy(tmp_path: Path) -> None:
    text = (
        "x = np.arange(12, dtype=np.float32).reshape(3, 4)\n"
        "y = nki.simulate(double)(x)\n"
        "assert type(y) is np.ndarray and (y == 2 * x).all(), y\n"
        "assert (double(x, size=3) == y).all()\n"
        "assert (double[1](x) == y).all()\n"
    )
    assert run(tmp_path, text) == 0


def test_simulate_gives_torch_for_torch_bfloat16_included(tmp_path: Path) -> None:
    text = (
        "import torch\n"
        "for dtype in (torch.float32, torch.bfloat16, torch.float16):\n"
        "    x = torch.ones(3, 4, dtype=dtype)\n"
        "    y = nki.simulate(double)(x)\n"
        "    assert y.dtype == dtype and bool((y == 2).all())\n"
    )
    assert run(tmp_path, text) == 0


def test_changed_global_is_seen_by_the_next_call(tmp_path: Path) -> None:
    text = (
        "x = np.ones((3, 4), np.float32)\n"
        "assert double(x)[0, 0] == 2\n"
        "SCALE = 5.0\n"
        "assert double(x)[0, 0] == 5\n"
    )
    assert run(tmp_path, text) == 0


def test_written_argument_is_updated_in_place(tmp_path: Path) -> None:
    text = (
        "@nki.jit\n"
        "def clear(x):\n"
        "    t = nl.zeros((3, 2), dtype=nl.float32)\n"
        "    nisa.dma_copy(dst=x[:, 0:2], src=t)\n"
        "    return x\n"
        "base = np.ones((4, 3), np.float32)\n"
        "clear(base.T)\n"
        "assert base[:2].sum() == 0 and base[2:].sum() == 6, base\n"
    )
    assert run(tmp_path, text) == 0


def test_kernel_that_returns_nothing_gives_what_it_wrote(tmp_path: Path) -> None:
    text = """
@nki.jit
def append(row, cache):
    nisa.dma_copy(dst=cache[2:3], src=row)

x = np.arange(12, dtype=np.float32).reshape(3, 4)
cache = np.zeros((4, 4), np.float32)
assert append(x[1:2].copy(), cache) is None
assert (cache[2] == x[1]).all() and cache.sum() == x[1].sum()
"""
    assert run(tmp_path, text) == 0


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("nl.fori_loop(0, 4, deep, step=0)", "script.py:26: NK308"),
        ("with nl.no_reorder():\n        nl.fori_loop(0, 4, deep)", "script.py:27: NK401"),
        ("deep(x)", "script.py:22: NK111 tracing ran out of recursion depth"),
    ],
)
def test_faults_below_pythons_own_frames_name_the_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str, words: str
) -> None:
    text = f"""
def deep(x):
    deep(x)

@nki.jit
def k(x):
    {body}

k(np.ones((3, 4), np.float32))
"""
    assert run(tmp_path, text) == 1
    assert words in capsys.readouterr().err


def test_kernel_that_gives_nothing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
@nki.jit
def forgetful(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)

forgetful(np.ones((3, 4), np.float32))
"""
    assert run(tmp_path, text) == 1
    assert "NK112 result 0 of the kernel is NoneType" in capsys.readouterr().err


def test_arguments_and_exit_code_are_the_scripts_own(tmp_path: Path) -> None:
    assert run(tmp_path, "assert sys.argv[1:] == ['a', 'b']\nsys.exit(7)\n", "a", "b") == 7


def test_kernel_fault_is_a_diagnostic_and_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "double(np.ones((200, 4), np.float32))\n") == 1
    err = capsys.readouterr().err
    assert "NK201" in err
    assert "script.py:14" in err
    assert "Traceback" not in err


def test_fault_outside_of_a_kernel_names_the_script_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "nki.nonsense\n") == 1
    err = capsys.readouterr().err
    assert "script.py:20: NK104" in err
    assert "called from" not in err


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("double(np.ones((3, 4)))", "float64"),
        ("double(np.ones((0, 4), np.float32))", "empty"),
        ("double[3](np.ones((3, 4), np.float32))", "NK116"),
        ("double(np.ones((3, 4), np.float32), [4])", "`size` of a kernel call is a list"),
        ("double((np.ones((3, 4), np.float32),))", "a tuple that holds arrays"),
        ("double({'x': np.ones((3, 4), np.float32)})", "an argument of its own"),
    ],
)
def test_call_that_no_kernel_can_take_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], call: str, words: str
) -> None:
    assert run(tmp_path, call + "\n") == 1
    assert words in capsys.readouterr().err


def test_script_error_shows_its_own_traceback_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "raise KeyError('mine')\n") == 1
    err = capsys.readouterr().err
    assert "KeyError: 'mine'" in err
    assert "runtime/script.py" not in err


def test_list_comprehension_in_a_kernel_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "@nki.jit\ndef bad(x):\n    t = nl.load(x)\n    parts = [t[:, i:i + 1] for i in range(2)]\n"
        "    return t\nbad(np.ones((3, 4), np.float32))\n"
    )
    assert run(tmp_path, text) == 1
    assert "comprehension" in capsys.readouterr().err


def test_target_comes_from_the_vendors_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "gen4")
    text = (
        "@nki.jit\ndef which(x):\n    assert nisa.get_nc_version() == nisa.nc_version.gen4\n"
        "    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(out, nl.load(x))\n    return out\nwhich(np.ones((3, 4), np.float32))\n"
    )
    assert run(tmp_path, text) == 0


def test_bfloat16_array_goes_through(tmp_path: Path) -> None:
    assert np.dtype(ml_dtypes.bfloat16).itemsize == 2
    text = (
        "import ml_dtypes\nx = np.full((3, 4), 1.5, ml_dtypes.bfloat16)\n"
        "y = double(x)\nassert y.dtype == x.dtype and (y == 3).all()\n"
    )
    assert run(tmp_path, text) == 0


def test_simulate_of_what_is_no_kernel_says_so() -> None:
    with installed() as modules, pytest.raises(KernelError, match="is int"):
        modules["nki"].simulate(3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("double()", "missing a required argument: 'x'"),
        ("double(np.ones((3, 4), np.float32), foo=1)", "unexpected keyword argument 'foo'"),
        ("double['2'](np.ones((3, 4), np.float32))", "is '2', but the limit is 1 or 2"),
    ],
)
def test_call_that_does_not_fit_names_the_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], call: str, words: str
) -> None:
    assert run(tmp_path, call + "\n") == 1
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert words in err
