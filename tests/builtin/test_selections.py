"""Choices between two tiles are right, and copy and round no more than they must."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

Solve = Callable[..., Verdict]

TWO = ((300, 70), (300, 70))
CHOICES = (
    Operator("of two that end there", "torch.where(x > 0, x + 1, torch.exp(x))", TWO[:1]),
    Operator("that is read on", "(lambda e: torch.where(x > 0, y, e) + e)(torch.exp(x))", TWO),
    Operator("of an argument", "torch.where(x > 0, x, y)", TWO),
    Operator("of choices", "torch.where(x > 0, y, torch.where(y > 0, x * 2, x.exp()))", TWO),
    Operator("of one for both", "(lambda e: torch.where(x > y, e, e * 2))(torch.exp(x))", TWO),
    Operator("of a number", "torch.where(x > 0, 3.0, torch.sigmoid(y))", TWO),
    Operator("or a number", "torch.where(x > 0, torch.sigmoid(y), 3.0) * x", TWO),
    Operator("or 0", "(lambda e: torch.where(x > 0, e, 0.0) + e)(torch.exp(y))", TWO),
)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("operator", CHOICES, ids=lambda o: o.name)
def test_choice_of_tiles_is_right(
    operator: Operator, dtype: str, make_task: MakeTask, solve: Solve
) -> None:
    verdict = solve(make_task(operator.source(dtype)))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_choice_overwrites_what_ends_there(dtype: str, make_task: MakeTask) -> None:
    text = write_kernel(make_task(CHOICES[0].source(dtype)), Target.TRN2)
    assert "data=exps" not in text
    assert "chosen" not in text


def test_choice_of_what_is_rounded_rounds_both_sides(make_task: MakeTask) -> None:
    text = write_kernel(make_task(CHOICES[0].source("bfloat16")), Target.TRN2)
    assert "nl.float32" not in text


def test_choice_leaves_what_is_read_on(make_task: MakeTask) -> None:
    text = write_kernel(make_task(CHOICES[1].source("float32")), Target.TRN2)
    assert "chosen = " in text


def test_number_overwrites_what_is_not_chosen_and_nothing_is_filled(make_task: MakeTask) -> None:
    text = write_kernel(make_task(CHOICES[6].source("float32")), Target.TRN2)
    assert "src=3.0" in text
    assert "memset" not in text


def test_number_is_filled_in_where_the_other_side_is_read_on(make_task: MakeTask) -> None:
    text = write_kernel(make_task(CHOICES[7].source("float32")), Target.TRN2)
    assert "nisa.memset(dst=chosen, value=0.0)" in text


ROWS = ((300, 700), (300, 1))
WHOLE_ROWS = (
    Operator("rows", "torch.where(y > 0, x, 0.5)", ROWS),
    Operator("other rows", "torch.where(y > 0, -1.0, x)", ROWS),
    Operator("two choices", "torch.where(y > 0, x, 0.0)"
             " + torch.where(y > 1, x, 2.0)", ROWS),
)  # fmt: skip
SIGN = "nisa.select_reduce("


@pytest.mark.parametrize("target", [Target.TRN1, Target.TRN2])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("operator", WHOLE_ROWS, ids=lambda o: o.name)
def test_choice_of_whole_rows_is_right(
    operator: Operator, dtype: str, target: Target, make_task: MakeTask, solve: Solve
) -> None:
    verdict = solve(make_task(operator.source(dtype)), target)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_whole_rows_are_selected_in_one_instruction(dtype: str, make_task: MakeTask) -> None:
    text = write_kernel(make_task(WHOLE_ROWS[0].source(dtype)), Target.TRN2)
    assert SIGN in text
    assert "memset" not in text


def test_rows_that_are_made_first_are_not_selected_from_psum(make_task: MakeTask) -> None:
    operator = Operator("made", "torch.where(y > 0, torch.exp(x), 0.5)", ROWS)
    assert SIGN not in write_kernel(make_task(operator.source("float32")), Target.TRN2)
