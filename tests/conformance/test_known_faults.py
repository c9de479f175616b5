"""Faults that people met with kernels and simulators, each as a row with the outcome it must have.

Law: a kernel called with arrays gives the chip's values, or the diagnostic that says what is wrong;
the judge says the same of the same kernel.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from nki_agent.base.errors import KernelError
from nki_agent.chip.spec import DEFAULT_TARGET
from nki_agent.nki.current.modules import installed
from nki_agent.runtime.launch import KernelWarning, launching
from nki_agent.runtime.settings import TARGET_VARIABLE
from nki_agent.task.loader import load_task
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage
from tests.conformance.fault import Array, Fault, Refusal, Values, normal
from tests.conformance.refused_faults import REFUSED_FAULTS
from tests.conformance.value_faults import VALUE_FAULTS
from tests.kernels import body

SPLIT_MATMUL = """
plain = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
split = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
for k in range(0, 512, 128):
    parts = []
    for source in (a, b):
        t = nl.load(source[k:k + 128, :])
        high = nl.copy(t, dtype=nl.bfloat16)
        low = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=low, data1=t, data2=high, op=nl.subtract)
        parts.append((high, low))
    (ah, al), (bh, bl) = parts
    nisa.nc_matmul(dst=plain, stationary=ah, moving=bh)
    for left, right in ((ah, bh), (ah, bl), (al, bh)):
        nisa.nc_matmul(dst=split, stationary=left, moving=right)
out = nl.ndarray((128, 256), dtype=nl.float32, buffer=nl.shared_hbm)
nisa.dma_copy(dst=out[:, :128], src=nl.copy(plain))
nisa.dma_copy(dst=out[:, 128:], src=nl.copy(split))
return out
"""
GLOBAL_SCALE = "SCALE = 2.0\n" + body(
    """
out = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.shared_hbm)
t = nl.load(x)
nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=SCALE)
nisa.dma_copy(dst=out, src=t)
return out
"""
)
PRODUCT = """
sums = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
nisa.nc_matmul(dst=sums, stationary=nl.load({0}), moving=nl.load({1}))
out = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
nisa.dma_copy(dst=out, src=nl.copy(sums))
return out
"""


@pytest.fixture(autouse=True)
def _modules() -> Iterator[None]:
    with installed(), launching():
        yield


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    """A judge for the default chip, which every judged row is for."""
    with Judge(target=DEFAULT_TARGET) as judge:
        yield judge


def load_kernel(folder: Path, text: str) -> ModuleType:
    """The module of a kernel file."""
    path = folder / "known_fault.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("known_fault", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def simulate(fault: Fault, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the kernel gives for its inputs; warnings about values are let through."""
    monkeypatch.setenv(TARGET_VARIABLE, fault.target.value)
    module = load_kernel(folder, fault.text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)
        return module.nki.simulate(module.kernel)(*fault.inputs.values())


def task_for(fault: Fault, folder: Path, reference: str) -> Task:
    """A task with the row's inputs, by shape and dtype."""
    lines = "\n".join("    " + line for line in reference.strip("\n").split("\n"))
    draws = ", ".join(
        f"{name!r}: rng.standard_normal({array.shape}).astype('{array.dtype}')"
        for name, array in fault.inputs.items()
    )
    path = folder / "task.py"
    path.write_text(
        f"import numpy as np\n\n\ndef reference({', '.join(fault.inputs)}):\n{lines}\n\n\n"
        f"def inputs(rng):\n    return {{{draws}}}\n"
    )
    return load_task(path)


@pytest.mark.parametrize("fault", VALUE_FAULTS, ids=lambda f: f.law)
def test_simulated_value_is_the_chips(
    fault: Values, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = simulate(fault, tmp_path, monkeypatch)
    wanted = fault.wanted
    assert found.shape == wanted.shape
    if fault.tolerance == 0:
        assert found.dtype == wanted.dtype
        assert found.tobytes() == np.ascontiguousarray(wanted).tobytes(), (found[0], wanted[0])
        return
    error = np.abs(found.astype(np.float64) - wanted).max() / np.abs(wanted).max()
    assert error <= fault.tolerance


@pytest.mark.parametrize("fault", [f for f in VALUE_FAULTS if f.reference], ids=lambda f: f.law)
def test_judge_finds_the_kernel_right(fault: Values, judge: Judge, tmp_path: Path) -> None:
    task = task_for(fault, tmp_path, fault.reference)
    verdict = judge.judge(Kernel.from_text(fault.text), task, root_seed=1)
    assert verdict.right, [str(d) for d in verdict.diagnostics]


@pytest.mark.parametrize("fault", REFUSED_FAULTS, ids=lambda f: f.law)
def test_simulation_refuses_and_says_why(
    fault: Refusal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KernelError) as caught:
        simulate(fault, tmp_path, monkeypatch)
    assert caught.value.diagnostic.code == fault.code
    assert [w for w in fault.words if w not in str(caught.value)] == []


@pytest.mark.parametrize("fault", REFUSED_FAULTS, ids=lambda f: f.law)
def test_judge_refuses_at_the_same_stage_with_the_same_words(
    fault: Refusal, judge: Judge, tmp_path: Path
) -> None:
    first = next(iter(fault.inputs))
    task = task_for(fault, tmp_path, f"return {first} * 2.0 + {' + '.join(fault.inputs)}.sum()")
    compiled = judge.compile(Kernel.from_text(fault.text), task.dev)
    assert compiled.stage is fault.stage
    finding = next(d for d in compiled.diagnostics if d.code == fault.code)
    assert [w for w in fault.words if w not in str(finding)] == []


def test_bfloat16_products_accumulate_in_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain bfloat16 gave 2.35e-3 on trn2, three products of halves under 2e-5 (public run)."""
    inputs = {"a": normal(512, 128, name="a"), "b": normal(512, 128, name="b")}
    fault = Fault(law="", kernel=SPLIT_MATMUL, inputs=inputs, source="nki.isa.nc_matmul")
    found = simulate(fault, tmp_path, monkeypatch).astype(np.float64)
    exact = inputs["a"].astype(np.float64).T @ inputs["b"].astype(np.float64)

    def error(product: Array) -> float:
        return float(np.linalg.norm(product - exact) / np.linalg.norm(exact))

    assert 1.5e-3 < error(found[:, :128]) < 3.5e-3
    assert 1e-6 < error(found[:, 128:]) < 2e-5


def test_float32_arithmetic_on_a_large_integer_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = next(f for f in VALUE_FAULTS if f.law.startswith("arithmetic on integers"))
    module = load_kernel(tmp_path, fault.text)
    with pytest.warns(KernelWarning, match=r"float32.*16777217.*\n.*16-bit halves"):
        module.nki.simulate(module.kernel)(*fault.inputs.values())


def test_changed_global_is_read_by_the_next_call(tmp_path: Path) -> None:
    module = load_kernel(tmp_path, GLOBAL_SCALE)
    run = module.nki.simulate(module.kernel)
    x = np.ones((128, 8), np.float32)
    assert (run(x) == 2).all()
    vars(module)["SCALE"] = 5.0
    assert (run(x) == 5).all()


def test_swapped_matmul_operands_are_wrong_on_square_matrices(judge: Judge, tmp_path: Path) -> None:
    inputs = {"a": np.zeros((128, 128), np.float32), "b": np.zeros((128, 128), np.float32)}
    task = task_for(Fault(law="", kernel="", inputs=inputs, source=""), tmp_path, "return a.T @ b")
    right = judge.judge(
        Kernel.from_text(body(PRODUCT.format("a", "b"), params="a, b")), task, root_seed=1
    )
    assert right.right, [str(d) for d in right.diagnostics]
    swapped = judge.judge(
        Kernel.from_text(body(PRODUCT.format("b", "a"), params="a, b")), task, root_seed=1
    )
    assert swapped.stage is Stage.WRONG


def test_transpose_by_single_elements_is_right_with_advice(judge: Judge, tmp_path: Path) -> None:
    fault = next(f for f in VALUE_FAULTS if f.law.startswith("a transpose by one DMA"))
    task = task_for(fault, tmp_path, fault.reference)
    verdict = judge.judge(Kernel.from_text(fault.text), task, root_seed=1)
    assert verdict.right
    assert any(d.code == "NK601" for d in verdict.diagnostics)
