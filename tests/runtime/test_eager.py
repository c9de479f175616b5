"""`--eager`: values while a kernel runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.calling import HEAD, run

START = """\
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
"""
END = """
    nl.store(out, t)
    return out
y = kernel(x)
"""
DOUBLE = "    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)\n"


def test_print_of_a_tile_shows_its_value_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "    print(t[0:1, :])\n" + DOUBLE + "    print(t[0:1, :])\n"
    assert run(tmp_path, START + body + END, is_eager=True) == 0
    out = capsys.readouterr().out
    assert "[[0. 1. 2. 3.]]" in out
    assert "[[0. 2. 4. 6.]]" in out


def test_values_change_nothing_of_the_result(tmp_path: Path) -> None:
    body = (
        "    np.asarray(t)\n    np.asarray(x)\n"
        + DOUBLE
        + "    u = np.asarray(t[:, 1:3], np.float64)\n"
        "    assert (u == 2 * X[:, 1:3]).all() and u.dtype == np.float64\n"
    )
    text = "X = x.copy()\n" + START + body + END + "assert (y == 2 * X).all() and (x == X).all()\n"
    assert run(tmp_path, text, is_eager=True) == 0


def test_psum_and_hbm_have_values_inside_of_a_scope(tmp_path: Path) -> None:
    body = (
        "    p = nl.ndarray((4, 3), dtype=nl.float32, buffer=nl.psum)\n"
        "    with nl.no_reorder():\n"
        "        nisa.nc_transpose(dst=p, data=t)\n"
        "        assert (np.asarray(p) == np.asarray(x).T).all()\n"
        "        nl.store(out, t)\n"
        "    assert (np.asarray(out) == np.asarray(t)).all()\n"
    )
    assert run(tmp_path, START + body + END, is_eager=True) == 0


def test_every_view_has_its_value(tmp_path: Path) -> None:
    body = (
        "    a = X[2:3, ::2]\n    assert (np.asarray(t[2:3, ::2]) == a).all()\n"
        "    u = t.reshape((3, 2, 2)).permute((0, 2, 1))\n"
        "    assert (np.asarray(u) == X.reshape(3, 2, 2).transpose(0, 2, 1)).all()\n"
        "    assert (np.asarray(t.view(nl.int32)) == X.view(np.int32)).all()\n"
        "    assert (np.asarray(x[1, 1:3]) == X[1, 1:3]).all()\n"
        "    low = nl.copy(t, dtype=nl.bfloat16)\n"
        "    assert (np.asarray(low[1:3, 1:2]) == X[1:3, 1:2]).all()\n"
    )
    assert run(tmp_path, "X = x.copy()\n" + START + body + END, is_eager=True) == 0


def test_value_without_rounding_is_float32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    body = (
        "    low = nl.ndarray((3, 4), dtype=nl.bfloat16)\n"
        "    nisa.tensor_scalar(dst=low, data=t, op0=nl.add, operand0=2.0**-12)\n"
        "    assert (np.asarray(low[:, 1:3]) == X[:, 1:3] + np.float32(2.0**-12)).all()\n"
    )
    assert run(tmp_path, "X = x.copy()\n" + START + body + END, is_eager=True) == 0


def test_register_has_a_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = "    r = nisa.register_alloc(7)\n    print(r)\n"
    assert run(tmp_path, START + body + END, is_eager=True) == 0
    assert "=7\n" in capsys.readouterr().out


def test_unwritten_memory_shows_poison(tmp_path: Path) -> None:
    body = (
        "    u = nl.ndarray((2, 2), dtype=nl.float32)\n    assert np.isnan(np.asarray(u)).all()\n"
    )
    assert run(tmp_path, START + body + END, is_eager=True) == 0


def test_breakpoint_sees_values(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(HEAD + START + "    breakpoint()\n" + END + "print(y[0, 3])\n")
    command = ["-c", "from nki_agent.cli.main import main; main()", "run", "--eager", str(path)]
    done = subprocess.run(
        [sys.executable, *command],
        input="p t[0:1, 0:2]\np 40 + 2\nc\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "[[0. 1.]]" in done.stdout
    assert "42" in done.stdout
    assert done.stdout.endswith("3.0\n")


@pytest.mark.parametrize("is_eager", [True, False])
def test_value_that_is_not_there_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_eager: bool
) -> None:
    loop = (
        "    def body(i):\n        nisa.tensor_copy(dst=t, src=t)\n        print(t)\n"
        "        np.asarray(t)\n"
        "    nl.fori_loop(0, 2, body)\n"
    )
    plain = "    np.asarray(t)\n"
    text = START + (loop if is_eager else plain) + END
    assert run(tmp_path, text, is_eager=is_eager) == 1
    assert "NK110" in capsys.readouterr().err


def test_control_flow_on_values_stays_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, START + "    if t[0:1, 0:1]:\n        pass\n" + END, is_eager=True) == 1
    assert "NK110" in capsys.readouterr().err


def test_tile_after_the_kernel_has_no_value(tmp_path: Path) -> None:
    text = (
        "KEPT = []\n" + START + "    KEPT.append(t)\n" + END + "assert '[' not in repr(KEPT[0])\n"
    )
    assert run(tmp_path, text, is_eager=True) == 0
