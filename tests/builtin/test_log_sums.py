"""Sums over the logarithms of a softmax are made without them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.capture import capture_task
from nki_agent.builtin.graph import Graph, Op
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.task.task import Task
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

Solve = Callable[[Task], Verdict]
ROWS = ((130, 300), (130, 300))
LOG_X, LOG_Y = "F.log_softmax(x, -1)", "F.log_softmax(y, -1)"
SUMS = (
    Operator("logarithms", f"-{LOG_X}.sum(-1)", ROWS[:1]),
    Operator("difference", f"({LOG_X} - {LOG_Y}).sum(-1, keepdim=True)", ROWS),
    Operator("entropy", f"-(F.softmax(x, -1) * {LOG_X}).sum(-1)", ROWS[:1]),
    Operator("cross entropy", f"(F.softmax(x, -1) * {LOG_Y}).sum(-1)", ROWS),
    Operator("divergence", f"F.kl_div({LOG_Y}, {LOG_X}, reduction='none', log_target=True).sum(-1)",
             ROWS),
    Operator("blocks", f"({LOG_X}.exp() * ({LOG_X} - {LOG_Y})).sum(-1)", ((3, 20, 90),) * 2),
)  # fmt: skip
OTHERS = (
    Operator("read twice", f"{LOG_X}.sum(-1, keepdim=True) * {LOG_X}", ROWS[:1]),
    Operator("largest", f"{LOG_X}.amax(-1)", ROWS[:1]),
    Operator("columns", f"{LOG_X}.sum(0)", ROWS[:1]),
    Operator("unequal", f"(F.softmax(x, -1) * y).sum(-1) + {LOG_X}.exp().sum(-1)", ROWS),
)


def softmaxes(graph: Graph) -> int:
    """How many a graph has left."""
    return sum(node.op is Op.SOFTMAX for node in graph.nodes)


@pytest.mark.parametrize("operator", SUMS, ids=lambda v: v.name)
def test_sum_needs_no_logarithm_of_each_element(
    operator: Operator, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source("float32"))
    assert not softmaxes(capture_task(task).graph)
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


@pytest.mark.parametrize("operator", OTHERS, ids=lambda v: v.name)
def test_logarithms_that_are_needed_are_made(
    operator: Operator, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source("float32"))
    assert softmaxes(capture_task(task).graph)
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_logarithms_in_16_bits_are_rounded_one_by_one(make_task: MakeTask) -> None:
    task = make_task(SUMS[0].source("bfloat16"))
    assert softmaxes(capture_task(task).graph)
    assert "row_log" in write_kernel(task, Target.TRN2)
