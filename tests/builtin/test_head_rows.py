"""Heads that lie side by side are loaded together, as the whole rows that they make up."""

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
import torch.nn.functional as F


def reference(x, y):
    query, key = (t.unflatten(-1, (-1, {depth})).transpose(1, 2) for t in x.chunk(2, -1))
    value = y.unflatten(-1, (-1, {depth})).transpose(1, 2)
    return F.scaled_dot_product_attention(query, key, value{more})


def inputs():
    return [torch.randn({batches}, {rows}, cols).to(torch.{dtype})
            for cols in ({heads} * {depth} * 2, {heads} * {depth})]
"""
SIZES = {"batches": 2, "rows": 150, "heads": 3, "depth": 24, "dtype": "bfloat16", "more": ""}
LARGER = {"batches": 3, "rows": 270, "heads": 5}


def _source(**changes: object) -> str:
    return SOURCE.format(**(SIZES | changes))


@pytest.mark.parametrize(
    ("more", "dtype", "target"),
    [
        ("", "bfloat16", Target.TRN1),
        ("", "float32", Target.TRN2),
        (", is_causal=True", "bfloat16", Target.TRN2),
        (", is_causal=True", "float32", Target.TRN3),
    ],
)
def test_heads_side_by_side_are_loaded_as_whole_rows(
    more: str, dtype: str, target: Target, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(_source(more=more, dtype=dtype))
    text = write_kernel(task, target)
    assert text.count("_rows = load_heads(") == 3
    assert "load_short_rows(" not in text
    larger = make_task(_source(more=more, dtype=dtype, **LARGER))
    verdict = solve(replace(task, perf=replace(larger.dev, name="perf")), target)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


@pytest.mark.parametrize(
    "changes",
    [{"depth": 96}, {"rows": 1500, "heads": 40}, {"heads": 1}],
    ids=["long runs", "too many bytes", "one head"],
)
def test_heads_are_loaded_one_by_one_where_rows_do_not_pay(
    changes: dict[str, object], make_task: MakeTask
) -> None:
    assert "load_heads(" not in write_kernel(make_task(_source(**changes)), Target.TRN2)
