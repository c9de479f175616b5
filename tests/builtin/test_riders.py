"""Columns that are only moved go with those beside them, where rows are moved whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

Solve = Callable[..., Verdict]

ROTATED = "x[..., :12] * y - x[..., 12:24] * z, x[..., 12:24] * y + x[..., :12] * z"
SHAPES = ((2, 3, 300, 60), (300, 12), (300, 12))
MOVED = (
    Operator("behind", f"torch.cat([{ROTATED}, x[..., 24:]], -1)", SHAPES),
    Operator(
        "in front",
        "torch.cat([x[..., :36], x[..., 36:48] * y - x[..., 48:] * z,"
        " x[..., 48:] * y + x[..., 36:48] * z], -1)",
        SHAPES,
    ),
    Operator("one loop", f"torch.cat([{ROTATED}, x[..., 24:]], -1)", ((300, 60), *SHAPES[1:])),
    Operator("behind there, in front here", f"torch.cat([x[..., 24:], {ROTATED}], -1)", SHAPES),
)
APART = (
    Operator("another tensor", f"torch.cat([{ROTATED}, w], -1)", (*SHAPES, (2, 3, 300, 20))),
    Operator("some of the rest", f"torch.cat([{ROTATED}, x[..., 30:]], -1)", SHAPES),
)


@pytest.mark.parametrize("operator", MOVED, ids=lambda o: o.name)
def test_columns_beside_those_of_a_pass_are_moved_with_them(
    operator: Operator, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source("bfloat16"))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    kernel = write_kernel(task, Target.TRN2)
    assert "dst=output_rest, src=x_rest" in kernel
    assert "def stage_" not in kernel


@pytest.mark.parametrize("operator", APART, ids=lambda o: o.name)
def test_columns_that_do_not_follow_are_right(
    operator: Operator, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source("bfloat16"))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert "_rest" not in write_kernel(task, Target.TRN2)
