"""Keys and values in pages are read where they lie, by the numbers of their pages."""

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


def gather(pages, table):
    return pages[table.long()].flatten(1, 2).transpose(1, 2)


def reference(query, key_pages, value_pages, table):
    key, value = gather(key_pages, table), gather(value_pages, table)
    y = F.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    return {result}


def inputs():
    pages = [torch.randn({pages}, {length}, {heads}, d).to(torch.{dtype}) for d in (24, {width})]
    table = torch.stack([torch.randperm({pages})[:{taken}] for _ in range({sequences})])
    query = torch.randn({sequences}, {heads} * {shared}, 1, 24).to(torch.{dtype})
    return [query, *pages, table.to(torch.int32)]
"""
SIZES = {
    "pages": 9,
    "length": 16,
    "heads": 2,
    "shared": 3,
    "width": 24,
    "taken": 4,
    "sequences": 2,
    "dtype": "bfloat16",
    "result": "y",
}
RAGGED = {"pages": 12, "length": 21, "heads": 3, "taken": 11, "sequences": 3}
LOADS = "_rows = load_pages("


def _source(**changes: object) -> str:
    return SOURCE.format(**(SIZES | changes))


@pytest.mark.parametrize("target", [Target.TRN1, Target.TRN2, Target.TRN3])
@pytest.mark.parametrize(
    "changes",
    [{}, {"dtype": "float32"}, {"width": 40}, {"shared": 1}],
    ids=lambda changes: ", ".join(changes) or "plain",
)
def test_pages_are_loaded_by_their_numbers(
    changes: dict[str, object], target: Target, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(_source(**changes))
    text = write_kernel(task, target)
    assert text.count(LOADS) == 2
    assert "vector_select" not in text
    larger = make_task(_source(**(changes | RAGGED)))
    verdict = solve(replace(task, perf=replace(larger.dev, name="perf")), target)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_pages_that_are_read_elsewhere_are_copied(make_task: MakeTask, solve: Solve) -> None:
    task = make_task(_source(result="y, key * 2"))
    assert LOADS not in write_kernel(task, Target.TRN2)
    verdict = solve(task, Target.TRN2)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
