"""The author's kernels are right, in float32 and bfloat16, on sizes that are no multiple of 128."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nki_agent.chip.spec import Target
from nki_agent.task.task import Task
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import ELEMENTWISE, PRODUCTS, ROWS, Operator, Shapes

DTYPES = ("float32", "bfloat16")
Solve = Callable[..., Verdict]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operator", [*ELEMENTWISE, *ROWS, *PRODUCTS], ids=lambda o: o.name)
def test_kernel_of_operator_is_right(
    operator: Operator, dtype: str, make_task: MakeTask, solve: Solve
) -> None:
    verdict = solve(make_task(operator.source(dtype)))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


OLDER = {"layer norm", "elu", "sine", "softplus", "variance", "hardswish", "softmax of short rows"}


@pytest.mark.parametrize("target", [Target.TRN1, Target.TRN3])
@pytest.mark.parametrize(
    "operator", [o for o in (*ELEMENTWISE, *ROWS) if o.name in OLDER], ids=lambda o: o.name
)
def test_kernel_keeps_the_limits_of_other_targets(
    operator: Operator, target: Target, make_task: MakeTask, solve: Solve
) -> None:
    verdict = solve(make_task(operator.source("float32")), target)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


TWO_SIZES: tuple[tuple[Operator, Shapes], ...] = (
    (ELEMENTWISE[2], ((4, 21, 64), (4, 21, 64))),
    (Operator("variance", "x.var(-1)", ((130, 70),)), ((257, 45),)),
    (
        Operator(
            "attention",
            "torch.softmax(x @ y.T * x.shape[-1] ** -0.5, -1) @ z",
            ((130, 64), (150, 64), (150, 64)),
        ),
        ((260, 32), (170, 32), (170, 48)),
    ),
    (
        Operator("linear", "torch.relu(F.linear(x, y, z))", ((3, 50, 200), (96, 200), (96,))),
        ((2, 70, 130), (150, 130), (150,)),
    ),
)


@pytest.mark.parametrize(("operator", "other"), TWO_SIZES, ids=lambda o: getattr(o, "name", ""))
def test_one_kernel_fits_every_shape_set(
    operator: Operator, other: Shapes, make_task: MakeTask, solve: Solve
) -> None:
    task: Task = make_task(operator.source("float32"))
    larger = make_task(operator.source("float32", other))
    verdict = solve(replace(task, perf=replace(larger.dev, name="perf")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert verdict.latency_ns is not None


@pytest.mark.parametrize("dtype", DTYPES)
def test_deep_product_streams_its_weights(dtype: str, make_task: MakeTask, solve: Solve) -> None:
    operator = Operator("wide", "torch.relu(x @ y)", ((140, 1300), (1300, 4100)))
    verdict = solve(make_task(operator.source(dtype)))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
