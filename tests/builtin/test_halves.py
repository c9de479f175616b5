"""Halves of a product that meet again are two products side by side."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

Solve = Callable[..., Verdict]

SHAPES = ((2, 150, 70), (70, 90))
GATE = "(lambda a, b: a * F.gelu(b))(*({}).chunk(2, -1))"
GATED = (
    Operator("gated unit", GATE.format("x @ y"), SHAPES),
    Operator("with a bias", GATE.format("x @ y + z"), (*SHAPES, (90,))),
    Operator("scaled", GATE.format("torch.tanh((x @ y) * 0.5)"), SHAPES),
    Operator("weights of each batch", GATE.format("x @ y"), ((2, 150, 70), (2, 70, 90))),
    Operator(
        "a bias of each batch",
        GATE.format("x @ y + z[:, None]"),
        (*SHAPES[:1], (2, 70, 90), (2, 90)),
    ),
)
WHOLE = (
    Operator("three parts", "(lambda a, b, c: a * b + c)(*(x @ y).chunk(3, -1))", SHAPES),
    Operator("a product that is read whole", f"(x @ y).sum() + {GATE.format('x @ y')}", SHAPES),
    Operator("made weights", GATE.format("x @ torch.sigmoid(y)"), SHAPES),
)


@pytest.mark.parametrize("operator", GATED, ids=lambda o: o.name)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_halves_that_meet_never_reach_hbm(
    operator: Operator, dtype: str, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source(dtype))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert "private_hbm" not in write_kernel(task, Target.TRN2)


@pytest.mark.parametrize("operator", WHOLE, ids=lambda o: o.name)
def test_product_whose_halves_are_not_alone_is_whole_and_right(
    operator: Operator, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source("float32"))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert "private_hbm" in write_kernel(task, Target.TRN2)
