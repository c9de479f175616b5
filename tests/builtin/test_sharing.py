"""What a reference computes twice is computed once, and results keep tiles of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.task.task import Task
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

Solve = Callable[[Task], Verdict]
TWICE = (
    Operator("elementwise", "torch.exp(x * y) + torch.exp(x * y).sum(-1, True)", ((150, 40),) * 2),
    Operator("seen through views", "torch.exp(x)[:, None] * y + torch.exp(x)[:, None].flatten(1)"
             ".unsqueeze(1)", ((150, 40), (150, 3, 40))),
)  # fmt: skip


@pytest.mark.parametrize("operator", TWICE, ids=lambda o: o.name)
def test_value_is_computed_once(operator: Operator, make_task: MakeTask, solve: Solve) -> None:
    task = make_task(operator.source("float32"))
    assert write_kernel(task, Target.TRN2).count("op=nl.exp") == 1
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_equal_results_are_both_written(make_task: MakeTask, solve: Solve) -> None:
    body = "(torch.exp(x), torch.exp(x), torch.exp(x) + 1)"
    verdict = solve(make_task(Operator("", body, ((150, 40),)).source("float32")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_values_that_are_equal_at_some_sizes_alone_stay_apart(
    make_task: MakeTask, solve: Solve
) -> None:
    body = "torch.exp(x[:30] * 2) + torch.exp(x[-30:] * 2)"
    task = make_task(Operator("", body, ((30, 40),)).source("float32"))
    larger = make_task(Operator("", body, ((50, 40),)).source("float32"))
    verdict = solve(replace(task, perf=replace(larger.dev, name="perf")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
