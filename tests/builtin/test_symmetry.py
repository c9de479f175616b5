"""A product that is its own mirror is made to one half, and right on both sides of the diagonal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.choices import Choices
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

Solve = Callable[..., Verdict]

TALL, WIDE = ((170, 300),), ((300, 170),)
MIRRORED = (
    Operator("columns with each other", "x.T @ x", TALL),
    Operator("rows with each other", "x @ x.T", WIDE),
    Operator("rows of batches", "x @ x.mT", ((3, 150, 40),)),
    Operator("scaled and squared", "torch.square(0.3 * (x @ x.T))", WIDE),
    Operator("more than a bank", "x.T @ x", ((70, 600),)),
)
POLYNOMIAL = "(lambda a: (2.0 * a + a @ a) @ x)(x @ x.T * 0.1)"
OTHERS = (
    Operator("a column is added", "x @ x.T + y", (*WIDE, (300, 1))),
    Operator("a matrix is added", "x @ x.T + y", (*WIDE, (300, 300))),
    Operator("of two matrices", "x @ y.T", (*WIDE, *WIDE)),
    Operator("by position", "torch.tril(x @ x.T)", WIDE),
    Operator("a square", "x @ x", ((200, 200),)),
)


@pytest.mark.parametrize("operator", MIRRORED, ids=lambda o: o.name)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_product_that_is_its_own_mirror_is_made_to_one_half(
    operator: Operator, dtype: str, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source(dtype))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert "store_mirrored(" in write_kernel(task, Target.TRN2)


def test_polynomial_of_a_symmetric_matrix_turns_it_nowhere(
    make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(Operator("polynomial", POLYNOMIAL, ((300, 700),)).source("float32"))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    kernel = write_kernel(task, Target.TRN2)
    assert kernel.count("load_transposed(") == 2  # it is defined, and turns x for the first product


@pytest.mark.parametrize("operator", OTHERS, ids=lambda o: o.name)
def test_product_that_is_no_mirror_is_whole_and_right(
    operator: Operator, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source("float32"))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert "store_mirrored(" not in write_kernel(task, Target.TRN2)


@pytest.mark.parametrize("choices", [Choices(w_share=0.0), Choices(split_products=True)])
def test_half_is_right_in_blocks_and_in_two_parts(
    choices: Choices, make_task: MakeTask, judges: dict[Target, Judge]
) -> None:
    task = make_task(MIRRORED[4].source("float32"))
    kernel = write_kernel(task, Target.TRN2, choices=choices)
    assert "store_mirrored(" in kernel
    verdict = judges[Target.TRN2].judge(Kernel.from_text(kernel), task, root_seed=1)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
