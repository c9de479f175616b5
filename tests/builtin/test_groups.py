"""Groups of few channels are one convolution, whose weights have zeros between them."""

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


def reference(x, weight, bias):
    return torch.relu(F.conv2d(x, weight, bias, stride={stride}, groups={groups}))


def inputs():
    x = torch.randn({images}, {groups} * {ins}, {lines}, 11).to(torch.{dtype})
    weight = torch.randn({groups} * {outs}, {ins}, 1, 1) / {ins} ** 0.5
    return [x, weight.to(torch.{dtype}), torch.randn({groups} * {outs}).to(torch.{dtype})]
"""
SIZES = {
    "images": 2,
    "groups": 3,
    "ins": 14,
    "outs": 5,
    "lines": 9,
    "stride": 1,
    "dtype": "float32",
}
LARGER = {"images": 3, "lines": 30}
PLACES = "place_groups("


def _source(**changes: object) -> str:
    return SOURCE.format(**(SIZES | changes))


@pytest.mark.parametrize("target", [Target.TRN1, Target.TRN2])
@pytest.mark.parametrize(
    ("changes", "larger"),
    [
        ({}, {"ins": 80, "outs": 20}),
        ({"dtype": "bfloat16"}, {"ins": 20, "outs": 80}),
        ({"stride": 2}, {"ins": 43, "outs": 43}),
    ],
    ids=["narrows", "widens", "strided"],
)
def test_groups_of_few_channels_share_products(
    changes: dict[str, object],
    larger: dict[str, object],
    target: Target,
    make_task: MakeTask,
    solve: Solve,
) -> None:
    task = make_task(_source(**changes))
    assert PLACES in write_kernel(task, target)
    more = make_task(_source(**(changes | LARGER | larger)))
    verdict = solve(replace(task, perf=replace(more.dev, name="perf")), target)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_groups_that_fill_the_partitions_stay_apart(make_task: MakeTask) -> None:
    task = make_task(_source(ins=128, outs=128, lines=32))
    assert PLACES not in write_kernel(task, Target.TRN2)
