"""Rows by index are loaded by the stage that uses them, and only where they are taken whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.task.task import Task
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask

Solve = Callable[[Task], Verdict]
SOURCE = """import torch
import torch.nn.functional as F


def reference(table, places, shift, factor):
    rows = table[places]
    return {body}


def inputs():
    return [torch.randn({rows}, {cols}).to(torch.{dtype}),
            torch.randint(0, {rows}, {shape}, dtype=torch.int32),
            torch.randn({cols}), torch.randn({shape})]
"""
SIZES = {"rows": 70, "cols": 300, "shape": (3, 150)}
LARGER = {"rows": 90, "cols": 330, "shape": (5, 137)}
JOINED = {
    "norm": "F.layer_norm(rows, (shift.shape[0],), shift) + factor[..., None]",
    "factor of each row": "rows * factor[..., None]",
    "elementwise": "torch.relu(rows) + rows",
    "chosen": "torch.where(factor[..., None] > 0, rows, 0)",
    "sums": "(rows * shift).sum(-1)",
    "index that is computed": "(rows + table[40 - (places - 30).abs()]) * shift",
}
APART = {
    "half rows": "torch.tanh(rows[..., :100] + rows[..., 100:200]) * factor[..., None]",
    "a result too": "(rows, rows * shift)",
    "turned": "(rows * shift).transpose(1, 2) + 1",
}


def _source(body: str, sizes: Mapping[str, object] = SIZES, dtype: str = "float32") -> str:
    return SOURCE.format(body=body, dtype=dtype, **sizes)


@pytest.mark.parametrize("name", [*JOINED, *APART])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_by_index_are_right(name: str, dtype: str, make_task: MakeTask, solve: Solve) -> None:
    body = (JOINED | APART)[name]
    task = make_task(_source(body, SIZES, dtype))
    larger = make_task(_source(body, LARGER, dtype))
    verdict = solve(replace(task, perf=replace(larger.dev, name="perf")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


@pytest.mark.parametrize("name", JOINED)
def test_gather_goes_straight_to_the_stage_that_uses_it(name: str, make_task: MakeTask) -> None:
    text = write_kernel(make_task(_source(JOINED[name])), Target.TRN2)
    assert ".vector_select(0, places" in text
    assert "Take rows" not in text


def test_gather_that_others_read_is_a_stage(make_task: MakeTask) -> None:
    text = write_kernel(make_task(_source(APART["a result too"])), Target.TRN2)
    assert "Take rows" in text


def test_next_rows_are_looked_up_before_gpsimd_works(make_task: MakeTask) -> None:
    sizes = {"rows": 70, "cols": 300, "shape": (9, 150)}
    body = "F.layer_norm(rows * shift, (shift.shape[0],), shift, shift) * shift"
    text = write_kernel(make_task(_source(body, sizes)), Target.TRN2)
    first = text[text.index("def phase_1(") : text.index("def phase_2(")]
    assert "vector_select" in first
    assert "engine.gpsimd" not in first
    assert "engine=nisa.engine.gpsimd" in text
