"""Rows of several turns of a loop lie on the partitions together, where one turn has few."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.task.task import Task
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask

Solve = Callable[[Task, Target], Verdict]
SOURCE = """import torch


def reference(x, y):
    return {result}


def inputs():
    return [torch.randn({x}).to(torch.{dtype}), torch.randn({y}).to(torch.{dtype})]
"""
STACKED = "stacked = PARTITIONS // num_rows"
CASES = {
    "a kronecker product": ("torch.kron(x, y)", ("8, 6", "10, 5"), ("30, 12", "21, 64")),
    "outer sums": (
        "torch.relu(x[:, None, :, None] + y[None, :, None, :])",
        ("7, 9", "11, 4"),
        ("50, 24", "33, 40"),
    ),
    "a row for each turn": (
        "torch.relu(x.transpose(1, 2) * y[:, None, :])",
        ("3, 20, 9", "3, 20"),
        ("6, 200, 60", "6, 200"),
    ),
    "rows of each batch apart": (
        "(x[:, None] * y).transpose(1, 2).contiguous() * 0.5",
        ("3, 9, 20", "5, 9, 20"),
        ("6, 60, 200", "7, 60, 200"),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("target", [Target.TRN1, Target.TRN2])
def test_few_rows_are_stacked_and_right(
    name: str, dtype: str, target: Target, make_task: MakeTask, solve: Solve
) -> None:
    result, small, large = CASES[name]
    task = make_task(SOURCE.format(result=result, x=small[0], y=small[1], dtype=dtype))
    more = make_task(SOURCE.format(result=result, x=large[0], y=large[1], dtype=dtype))
    task = replace(task, perf=replace(more.dev, name="perf"))
    text = write_kernel(task, target)
    assert STACKED in text
    verdict = solve(task, target)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_rows_that_fill_the_partitions_are_not_stacked(make_task: MakeTask, solve: Solve) -> None:
    small, large = ("8, 6", "10, 5"), ("128, 6", "10, 5")
    made = [
        make_task(SOURCE.format(result="torch.kron(x, y)", x=x, y=y, dtype="float32"))
        for x, y in (small, large)
    ]
    task = replace(made[0], perf=replace(made[1].dev, name="perf"))
    assert STACKED not in write_kernel(task, Target.TRN2)
    assert solve(task, Target.TRN2).stage is Stage.RIGHT
