"""Attention reads the keys of a cache and those behind them where they lie."""

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


def reference(query, key_cache, value_cache, key, value):
    keys, values = torch.cat([key_cache, key], 2), torch.cat([value_cache, value], 2)
    seen = torch.arange(keys.shape[2]) <= torch.arange(key_cache.shape[2], keys.shape[2])[:, None]
    y = F.scaled_dot_product_attention(query, keys, values, enable_gqa=True{mask})
    return {result}


def inputs():
    def draw(heads, rows, cols):
        return torch.randn({sequences}, heads, rows, cols).to(torch.{dtype})

    pairs = [draw({heads}, n, d) for n in ({cached}, {new}) for d in (24, {width})]
    return [draw({heads} * {shared}, {new}, 24), *pairs]
"""
SIZES = {
    "sequences": 2,
    "heads": 2,
    "shared": 3,
    "cached": 60,
    "new": 1,
    "width": 24,
    "dtype": "bfloat16",
    "mask": "",
    "result": "y",
}
LARGER = {"sequences": 3, "heads": 5, "cached": 255}
MASKED = {"new": 9, "mask": ", attn_mask=seen"}
LOADS = "load_behind(v_kept"


def _source(**changes: object) -> str:
    return SOURCE.format(**(SIZES | changes))


@pytest.mark.parametrize("target", [Target.TRN1, Target.TRN2, Target.TRN3])
@pytest.mark.parametrize(
    ("changes", "larger"),
    [
        ({}, {}),
        ({"dtype": "float32"}, {"cached": 128}),
        ({"new": 150, "width": 40, "mask": ", attn_mask=seen"}, {"new": 301}),
        (MASKED, {"new": 14}),
        ({"result": "y, key, value"}, {}),
    ],
    ids=["decode", "float32", "chunk", "masked", "returned"],
)
def test_keys_and_values_of_a_cache_are_not_copied(
    changes: dict[str, object],
    larger: dict[str, object],
    target: Target,
    make_task: MakeTask,
    solve: Solve,
) -> None:
    task = make_task(_source(**changes))
    text = write_kernel(task, target)
    assert LOADS in text
    more = make_task(_source(**(changes | LARGER | larger)))
    verdict = solve(replace(task, perf=replace(more.dev, name="perf")), target)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


@pytest.mark.parametrize("result", ["y, keys", "y, values"])
def test_what_is_read_elsewhere_is_put_together(
    result: str, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(_source(result=result))
    assert LOADS not in write_kernel(task, Target.TRN2)
    verdict = solve(task, Target.TRN2)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
