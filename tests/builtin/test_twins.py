"""Two products that share an operand: right, and one stage if the second goes on with the first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

Solve = Callable[..., Verdict]

SHAPES = ((300, 70), (70, 90), (70, 90))
TWINS = (
    Operator("gated unit", "F.silu(x @ y) * (x @ z)", SHAPES),
    Operator("with a bias each", "torch.tanh(x @ y + w) * (x @ z - w)", (*SHAPES, (90,))),
    Operator("of batches", "torch.sigmoid(x @ y) + x @ z", ((3, 150, 70), (70, 90), (70, 90))),
    Operator("that share weights", "torch.relu(x @ z) * (y @ z)", ((300, 70), (300, 70), (70, 90))),
    Operator("made across", "(torch.sigmoid(x @ y) * (x @ z)).mT.contiguous()", SHAPES),
    Operator("of short rows", "(x @ y) * (x @ z)", ((700, 24), (24, 40), (24, 40))),
)
APART = (
    Operator("results that are read twice", "(lambda a: a * (x @ z) @ a.mT)(x @ y)", SHAPES),
    Operator("other columns", "(x @ y)[:, :30] * (x @ z)", ((300, 70), (70, 90), (70, 30))),
    Operator("nothing in common", "(x @ y) * (z @ w)", (*SHAPES[:2], (300, 50), (50, 90))),
)


@pytest.mark.parametrize("operator", TWINS, ids=lambda o: o.name)
def test_twins_are_one_stage(operator: Operator, make_task: MakeTask, solve: Solve) -> None:
    task = make_task(operator.source("float32"))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    kernel = write_kernel(task, Target.TRN2)
    assert "product_2 = " in kernel
    assert "private_hbm" not in kernel


COLUMNS = (
    Operator("weighted mean", "(x @ y) / (x @ z + 100)", ((300, 70), (70, 90), (70, 1))),
    Operator("with what follows", "x @ y + torch.tanh(x @ z)", ((300, 70), (70, 600), (70, 1))),
    Operator("of batches", "(x @ y) * (x @ z)", ((3, 150, 70), (3, 70, 90), (3, 70, 1))),
)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("operator", COLUMNS, ids=lambda o: o.name)
def test_product_of_one_column_shares_the_stage_of_its_twin(
    operator: Operator, dtype: str, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source(dtype))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    kernel = write_kernel(task, Target.TRN2)
    assert "product_2 = " in kernel
    assert "private_hbm" not in kernel


@pytest.mark.parametrize("operator", APART, ids=lambda o: o.name)
def test_products_that_are_no_twins_are_right(
    operator: Operator, make_task: MakeTask, solve: Solve
) -> None:
    verdict = solve(make_task(operator.source("float32")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_twins_of_16_bits_are_right(make_task: MakeTask, solve: Solve) -> None:
    verdict = solve(make_task(TWINS[1].source("bfloat16")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
