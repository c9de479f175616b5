"""Counts of whole numbers: products of one-hot digits that several elements share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask

Solve = Callable[[Task], Verdict]
COUNTS = """
import torch

SHAPES = {{"dev": {{"T": 1777, "V": {values}}}, "odd": {{"T": 300, "V": {values}}}}}
INPUTS = {{"indices": "int32[T] index(V)"}}
OUTPUTS = {{"counts": "int32[V]"}}


def reference(indices, V={values}):
    return indices.new_zeros(V).index_add(0, indices, torch.ones_like(indices))
"""
ELEMENTS = 14
"""Of 1777, 128 partitions hold so many each."""


@pytest.mark.parametrize("values", [5, 83, 300, 2048])
def test_counts_are_right_however_many_share_a_product(
    make_task: MakeTask, solve: Solve, values: int
) -> None:
    verdict = solve(make_task(COUNTS.format(values=values)))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_elements_of_few_values_share_products(
    make_task: MakeTask, judges: dict[Target, Judge]
) -> None:
    task = make_task(COUNTS.format(values=83))
    found = judges[Target.TRN2].compile(Kernel.from_text(write_kernel(task, Target.TRN2)), task.dev)
    assert found.program is not None
    ops = [found.program.signatures[n.signature].op for n in found.program.instructions()]
    assert 0 < ops.count("nc_matmul") < ELEMENTS
