"""Sums down the columns are made in the pass that has their rows; nothing is stored for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

Solve = Callable[..., Verdict]

ROWS = ((300, 700), (300, 700))
NORMED = "x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)"
JOINED = (
    Operator("of what is made", f"{NORMED} * y, ({NORMED} * y * y).sum(0)", ROWS),
    Operator("of what is loaded", f"{NORMED} * y, y.sum(0)", ROWS),
    Operator("both", f"{NORMED} * y, ({NORMED} * y * y).sum(0), y.sum(0)", ROWS),
    Operator("several axes", f"{NORMED} * y, (x * y).sum((0, 1))", ((3, 100, 60), (3, 100, 60))),
)
APART = (
    Operator("of other rows", f"{NORMED}, y.sum(0)", ((300, 700), (200, 700))),
    Operator("largest", f"{NORMED} * y, y.amax(0)", ROWS),
    Operator("that the pass reads", f"{NORMED} * y - y.sum(0)", ROWS),
)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("operator", JOINED, ids=lambda o: o.name)
def test_sums_ride_along_with_the_pass_that_has_the_rows(
    operator: Operator, dtype: str, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source(dtype))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    kernel = write_kernel(task, Target.TRN2)
    assert "adds up the columns" in kernel
    assert "private_hbm" not in kernel
    assert "def stage_" not in kernel


@pytest.mark.parametrize("operator", APART, ids=lambda o: o.name)
def test_other_reductions_have_a_pass_of_their_own(
    operator: Operator, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source("float32"))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert "adds up the columns" not in write_kernel(task, Target.TRN2)
