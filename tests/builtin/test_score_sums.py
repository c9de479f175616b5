"""Scores that are the sum of two products are summed where they are made."""

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


def reference(query, turned_query, cache, turned_cache):
    turned = turned_query @ turned_cache.transpose(-1, -2)
    scores = query @ cache.transpose(-1, -2) + turned
    weights = F.softmax(scores * 0.2, dim=-1)
    return {result}


def inputs():
    shapes = [({heads}, 40), ({heads}, {more}), ({keys}, 40), ({keys}, {more})]
    return [torch.randn({sequences}, *shape).to(torch.{dtype}) for shape in shapes]
"""
SIZES = {
    "sequences": 2,
    "heads": 6,
    "keys": 70,
    "more": 10,
    "dtype": "bfloat16",
    "result": "weights @ cache",
}
LARGER = {"sequences": 3, "heads": 10, "keys": 1300}
ADDED = "stationary=q_more"


def _source(**changes: object) -> str:
    return SOURCE.format(**(SIZES | changes))


@pytest.mark.parametrize("target", [Target.TRN1, Target.TRN2, Target.TRN3])
@pytest.mark.parametrize(
    ("changes", "larger"),
    [({}, {}), ({"dtype": "float32"}, {}), ({"more": 140}, {"keys": 300})],
    ids=["16 bits", "float32", "deep"],
)
def test_a_product_that_is_added_to_scores_stays_in_psum(
    changes: dict[str, object],
    larger: dict[str, object],
    target: Target,
    make_task: MakeTask,
    solve: Solve,
) -> None:
    task = make_task(_source(**changes))
    assert ADDED in write_kernel(task, target)
    more = make_task(_source(**(changes | LARGER | larger)))
    verdict = solve(replace(task, perf=replace(more.dev, name="perf")), target)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_a_product_that_is_read_elsewhere_is_made_for_itself(
    make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(_source(result="weights @ cache, turned"))
    assert ADDED not in write_kernel(task, Target.TRN2)
    verdict = solve(task, Target.TRN2)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
