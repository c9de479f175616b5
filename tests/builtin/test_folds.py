"""Reductions over axes whose elements lie apart are right, whatever lies on the partitions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.task.task import Task
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

FOLDS = (
    Operator("sum of columns", "x.sum(0)", ((300, 70),)),
    Operator("largest of columns", "x.amax(0)", ((1100, 150),)),
    Operator("smallest of few columns", "x.amin(0)", ((70, 9),)),
    Operator("mean of the middle", "x.mean(1)", ((3, 150, 40),)),
    Operator("sum of the middle, many batches", "x.sum(1)", ((150, 20, 8),)),
    Operator("sum of long runs", "(x * y).sum(0)", ((3, 150, 120), (3, 150, 120))),
    Operator("largest of two outer axes", "x.amax((0, 1))", ((5, 6, 130),)),
    Operator("column norms", "x * torch.rsqrt((x * x).sum(0, keepdim=True) + 1)", ((140, 33),)),
)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("operator", FOLDS, ids=lambda o: o.name)
def test_reduction_across_runs_is_right(
    operator: Operator, dtype: str, make_task: MakeTask, solve: Callable[[Task], Verdict]
) -> None:
    verdict = solve(make_task(operator.source(dtype)))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_reduction_across_runs_turns_nothing(make_task: MakeTask) -> None:
    text = write_kernel(make_task(FOLDS[0].source("float32")), Target.TRN2)
    assert "private_hbm" not in text
    assert "nc_transpose" not in text


def test_short_rows_are_reduced_in_long_runs(make_task: MakeTask) -> None:
    short, long = (Operator("sum", "x.sum(0)", ((1100, n),)).source("bfloat16") for n in (64, 512))
    assert "depth_runs(" in write_kernel(make_task(short), Target.TRN2)
    assert "depth_runs(" not in write_kernel(make_task(long), Target.TRN2)
