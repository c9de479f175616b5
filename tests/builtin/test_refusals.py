"""What the author cannot write it says: the node, why, and what to try."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_agent.builtin.graph import UnsupportedError
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.sandbox.task_host import load_untrusted_task
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator, Shapes
from tests.judging import SOFTMAX_TASK

CASES: tuple[tuple[str, Shapes, str], ...] = (
    ("torch.special.i0e(x)", ((40, 50),), "aten.special_i0e"),
    ("torch.where(x.sum() > 0, x, -x) if x.sum() > 0 else x", ((40, 50),), "branches on values"),
    ("torch.sort(x, -1).values", ((4, 60_000),), "columns"),
    ("torch.cumsum(x, -1)", ((4, 60_000),), "columns"),
)


@pytest.mark.parametrize(("body", "shapes", "named"), CASES, ids=[c[0] for c in CASES])
def test_operator_without_a_rule_is_named(
    body: str, shapes: Shapes, named: str, make_task: MakeTask
) -> None:
    task = make_task(Operator("refused", body, shapes).source("float32"))
    with pytest.raises(UnsupportedError) as caught:
        write_kernel(task, Target.TRN2)
    assert named in str(caught.value)


HINTED = {
    "torch operator": "def reference(x):\n    return torch.special.i0e(x)",
    "numpy ufunc": "def reference(x):\n    return np.cbrt(x)",
    "numpy function": "def reference(x):\n    return np.sort(x)",
    "update": "UPDATES = ('x',)\n\n\ndef reference(x):\n    x += 1",
}


@pytest.mark.parametrize("reference", HINTED.values(), ids=HINTED)
def test_refusal_says_what_to_do(reference: str, make_task: MakeTask) -> None:
    values = "torch.randn(40, 50)" if "torch" in reference else "np.ones((40, 50), np.float32)"
    head = "import numpy as np\nimport torch\n"
    task = make_task(f"{head}{reference}\n\n\ndef inputs():\n    return [{values}]\n")
    with pytest.raises(UnsupportedError) as caught:
        write_kernel(task, Target.TRN2)
    assert "use another `--model`" in caught.value.hint


def test_constant_of_the_file_is_refused_but_a_number_is_taken(make_task: MakeTask) -> None:
    number = make_task(Operator("number", "x + torch.tensor(3.0)", ((40, 50),)).source("float32"))
    assert "3.0" in write_kernel(number, Target.TRN2)
    body = "x + torch.linspace(0, 1, 50)"
    constant = make_task(Operator("constant", body, ((40, 50),)).source("float32"))
    with pytest.raises(UnsupportedError, match=r"aten\.linspace"):
        write_kernel(constant, Target.TRN2)


def test_same_task_gives_the_same_text(make_task: MakeTask) -> None:
    task = make_task(Operator("norm", "F.normalize(x, dim=-1)", ((40, 50),)).source("float32"))
    assert write_kernel(task, Target.TRN2) == write_kernel(task, Target.TRN2)


def test_untrusted_task_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "task.py"
    path.write_text(SOFTMAX_TASK)
    with pytest.raises(UnsupportedError, match="loaded in a process of its own"):
        write_kernel(load_untrusted_task(path), Target.TRN2)
