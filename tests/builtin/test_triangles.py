"""A product with a triangle leaves out what is zero."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.choices import Choices
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

Solve = Callable[..., Verdict]

SQUARE = ((300, 300), (300, 70))
BATCH = ((2, 300, 300), (2, 300, 70))
WIDE = ((300, 200), (200, 70))
NOTE = "Behind the diagonal"
LOWER = (
    Operator("up to the diagonal", "torch.tril(x) @ y", SQUARE),
    Operator("below the diagonal", "torch.tril(x, 3) @ y", SQUARE),
    Operator("of batches", "torch.tril(x) @ y", BATCH),
    Operator("of few columns", "torch.tril(x) @ y", WIDE),
    Operator("of short rows", "torch.tril(x) @ y", ((300, 40), (40, 70))),
)
OTHERS = (
    Operator("an upper triangle", "torch.triu(x) @ y", SQUARE),
    Operator("a triangle of other rows", "torch.tril(x).mT @ y", SQUARE),
    Operator("a triangle on the right", "y.mT @ torch.tril(x)", SQUARE),
    Operator("short of the diagonal", "torch.tril(x, -1) @ y", SQUARE),
    Operator("ones behind the diagonal", "torch.exp(torch.tril(x)) @ y", SQUARE),
)


@pytest.mark.parametrize("operator", LOWER, ids=lambda o: o.name)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_product_with_a_lower_triangle_stops_at_the_diagonal(
    operator: Operator, dtype: str, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source(dtype))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert NOTE in write_kernel(task, Target.TRN2)


@pytest.mark.parametrize("operator", OTHERS, ids=lambda o: o.name)
def test_product_with_another_triangle_is_right(
    operator: Operator, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source("float32"))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert NOTE not in write_kernel(task, Target.TRN2)


def test_triangle_whose_weights_come_block_by_block_stops_too(make_task: MakeTask) -> None:
    task = make_task(LOWER[0].source("float32"))
    kernel = write_kernel(task, Target.TRN2, choices=Choices(w_share=0.0))
    assert "w_block" in kernel
    assert "for k in range(seen):" in kernel
