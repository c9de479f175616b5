"""What scripts that were written for the vendor's simulator expect."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nki_agent.base.errors import UsageError
from tests.runtime.calling import run

CORES = """\
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    half = x.shape[0] // nl.num_programs()
    start = nl.program_id(0) * half
    t = nl.load(x[start:start + half, :])
    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=float(1 + nl.program_id(0)))
    nisa.dma_copy(dst=out[start:start + half, :], src=t)
    return out
x = np.ones((4, 3), np.float32)
"""
PRECISE = """\
import ml_dtypes
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=nl.bfloat16)
    nisa.dma_copy(dst=t, src=x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=2.0**-12)
    nisa.dma_copy(dst=out, src=t)
    nisa.dma_copy(dst=x, src=t)
    return out
x = np.ones((3, 4), np.float32)
y = kernel(x)
"""


def test_kernel_on_two_cores_gives_what_both_wrote(tmp_path: Path) -> None:
    text = CORES + (
        "assert kernel(x).tolist() == [[2.0] * 3] * 4\n"
        "y = kernel[2](x)\n"
        "assert y[:, 0].tolist() == [2.0, 2.0, 3.0, 3.0], y\n"
        "assert (nki.simulate(kernel[2])(x) == y).all() and (kernel[(2,)](x) == y).all()\n"
        "assert (kernel[2][1](x) == kernel(x)).all()\n"
    )
    assert run(tmp_path, text) == 0


def test_two_cores_are_refused_on_a_chip_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    assert run(tmp_path, CORES + "kernel[2](x)\n") == 1
    assert "NK311" in capsys.readouterr().err


def test_launch_inside_a_kernel_runs_on_its_cores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outer = "@nki.jit\ndef outer(x):\n    return kernel[2](x)\n"
    assert run(tmp_path, CORES + outer + "assert outer[2](x)[3, 0] == 3\nouter(x)\n") == 1
    assert "NK116" in capsys.readouterr().err


def test_device_print_goes_to_stdout_at_each_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "@nki.jit\ndef kernel(x):\n    t = nl.load(x)\n    nl.device_print('tile', t[0:1, 0:2])\n"
        "    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(out, t)\n    return out\n"
        "kernel(x)\nkernel(x + 1)\n"
    )
    assert run(tmp_path, text) == 0
    assert capsys.readouterr().out == "tile [[0. 1.]]\ntile [[1. 2.]]\n"


def test_low_precision_is_rounded(tmp_path: Path) -> None:
    text = PRECISE + "assert y.dtype == ml_dtypes.bfloat16 and (y == 1).all() and (x == 1).all()\n"
    assert run(tmp_path, text) == 0


def test_low_precision_is_kept_as_float32_where_the_environment_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    text = PRECISE + (
        "assert y.dtype == np.float32 and (y == 1 + 2.0**-12).all(), y\n"
        "assert (x == 1 + 2.0**-12).all()\n"
        "low = np.ones((3, 4), ml_dtypes.bfloat16)\n"
        "assert (kernel(low) == 1 + 2.0**-12).all() and (low == 1).all()\n"
    )
    assert run(tmp_path, text) == 0


@pytest.mark.parametrize(
    ("name", "value"), [("NKI_PRECISE_FP", "yes"), ("NEURON_PLATFORM_TARGET_OVERRIDE", "trn9")]
)
def test_environment_that_means_nothing_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=f"{name}={value}"):
        run(tmp_path, CORES + "kernel(x)\n")


def test_script_finds_that_kernels_are_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NKI_SIMULATOR", "0")
    assert run(tmp_path, "import os\nassert os.environ['NKI_SIMULATOR'] == '1'\n") == 0
    assert os.environ["NKI_SIMULATOR"] == "0"
    monkeypatch.delenv("NKI_SIMULATOR")
    assert run(tmp_path, "") == 0
    assert "NKI_SIMULATOR" not in os.environ


def test_cpu_simulator_runs_kernels_by_keyword(tmp_path: Path) -> None:
    text = CORES + (
        "from nki_cpu_simulator import cpu_simulate\n"
        "import nki_cpu_simulator as other, nki_cpu_simulator.language as language\n"
        "assert other.jit is nki.jit and language is nl\n"
        "assert cpu_simulate(kernel)[2](x=x)[3, 0] == 3\n"
        "assert cpu_simulate(kernel.function)(x=x)[3, 0] == 2\n"
    )
    assert run(tmp_path, text) == 0


def test_result_of_torch_tensors_on_two_cores_is_a_torch_tensor(tmp_path: Path) -> None:
    text = CORES + (
        "import torch\ny = kernel[2](torch.ones(4, 3, dtype=torch.bfloat16))\n"
        "assert y.dtype == torch.bfloat16 and y[3, 0] == 3\n"
    )
    assert run(tmp_path, text) == 0
