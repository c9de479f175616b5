"""A pass over the rows of a product takes them while they are in SBUF, and only whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nki_agent.builtin.choices import Choices
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.task.task import Task
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator, Shapes

Solve = Callable[[Task], Verdict]
LINEAR = ((300, 70), (600, 70), (600,))
SCORES = ((3, 150, 40), (3, 140, 40), (140,))
LARGER: dict[Shapes, Shapes] = {
    LINEAR: ((410, 90), (530, 90), (530,)),
    SCORES: ((5, 260, 50), (5, 190, 50), (190,)),
}
CAUSAL = "torch.ones(x.shape[1], y.shape[1], dtype=torch.bool).triu(1)"
SCALED = "x @ y.transpose(1, 2) * x.shape[-1] ** -0.5"
JOINED = (
    Operator("norm", "F.layer_norm(F.linear(x, y, z), (z.shape[0],), z)", LINEAR),
    Operator("softmax", f"torch.softmax({SCALED}, -1)", SCORES),
    Operator("bias of columns", f"torch.softmax({SCALED} + z, -1)", SCORES),
    Operator("hidden columns", f"torch.softmax(({SCALED}).masked_fill({CAUSAL}, -1e30), -1)",
             SCORES),
    Operator("two results", f"(torch.logsumexp({SCALED}, -1), torch.softmax({SCALED}, -1))",
             SCORES),
    Operator("second product", "F.normalize(F.linear(x, y), dim=-1) * F.linear(x, y, z)", LINEAR),
    Operator("over rows, made across", f"torch.softmax({SCALED}, 1)", SCORES),
    Operator("sums", "torch.relu(F.linear(x, y, z)).sum(-1)", LINEAR),
)  # fmt: skip
APART = (
    Operator("a result too", "(lambda h: (h, torch.softmax(h, -1)))(F.linear(x, y))", LINEAR),
    Operator("in parts", "torch.softmax(F.linear(x, y).unflatten(1, (2, -1)), -1)", LINEAR),
)


@pytest.mark.parametrize("operator", [*JOINED, *APART], ids=lambda o: o.name)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_of_a_product_are_right(
    operator: Operator, dtype: str, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source(dtype))
    larger = make_task(operator.source(dtype, LARGER[operator.shapes]))
    verdict = solve(replace(task, perf=replace(larger.dev, name="perf")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


@pytest.mark.parametrize("operator", JOINED, ids=lambda o: o.name)
def test_rows_of_a_product_stay_in_sbuf(operator: Operator, make_task: MakeTask) -> None:
    text = write_kernel(make_task(operator.source("float32")), Target.TRN2)
    assert "phase_1(" in text
    assert "multiply(*operands), *rest)" in text


@pytest.mark.parametrize("operator", APART, ids=lambda o: o.name)
def test_rows_that_are_needed_otherwise_are_stored(operator: Operator, make_task: MakeTask) -> None:
    assert "whole_tile" not in write_kernel(make_task(operator.source("float32")), Target.TRN2)


def test_rows_are_stored_where_stages_are_not_joined(make_task: MakeTask) -> None:
    task = make_task(JOINED[0].source("float32"))
    assert "whole_tile" not in write_kernel(task, Target.TRN2, choices=Choices(joining=False))
