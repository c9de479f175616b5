"""Tensors are called as the kernel calls them, where its source leaves no doubt."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_agent.program.targets import read_targets
from tests.agent.tiny import RIGHT
from tests.cli.calling import call, write_kernel, write_task

SLOW = RIGHT.replace("range(0, 150, 128)", "range(0, 150, 16)").replace("min(128,", "min(16,")
ONCE = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    half: object = nl.ndarray(
        (75, 32),
        dtype=x.dtype,
        buffer=nl.sbuf,
    )
    given = nl.ndarray((75, 32), dtype=x.dtype, buffer=nl.sbuf, name="mine")
    nisa.dma_copy(dst=half, src=x.reshape((75, 32)))
    nisa.tensor_scalar(dst=given, data=half, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=out.reshape((75, 32)), src=given)
    return out
"""


def show(folder: Path, source: str) -> str:
    called = call("show", write_kernel(folder, source), "--task", write_task(folder))
    assert called.code == 0, called.err
    return called.out


def test_listing_has_the_kernels_names(tmp_path: Path) -> None:
    shown = show(tmp_path, ONCE)
    assert "result out [2, 75, 16]" in shown
    assert "dma_copy dst=half[75, 32] src=x[75, 32]" in shown
    assert "tensor_scalar dst=mine[75, 32] data=half[75, 32]" in shown


def test_tensors_of_one_line_are_numbered(tmp_path: Path) -> None:
    shown = show(tmp_path, SLOW)
    assert "dst=tile#1[16, 16]" in shown
    assert "dst=tile#2[16, 16]" in shown
    assert "t2[" not in shown


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("a = nl.ndarray((1, 2))", {1: "a"}),
        ("a = nl.exp(nl.load(x))", {}),
        ("a = nl.ndarray((nl.par_dim(1), size(2)))", {1: "a"}),
        ("a = nl.load(x); b = nl.load(y)", {}),
        ("a, b = make()", {}),
        ("a = b = nl.load(x)", {}),
        ("a.b = nl.load(x)", {1: "a.b"}),
        ("a['k'] = nl.load(x)", {1: "a"}),
        ("a = [nl.load(x) for i in range(3)]", {1: "a"}),
        ("a = nl.load(\n    x,\n)", {1: "a", 2: "a", 3: "a"}),
        ("a = 1 +", {}),
        ("a" * 100 + " = nl.load(x)", {1: "a" * 40}),
    ],
)
def test_name_is_that_of_the_only_assignment(line: str, names: dict[int, str]) -> None:
    assert read_targets(line) == names
