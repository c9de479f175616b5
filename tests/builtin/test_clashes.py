"""A kernel gives no argument's name to something else where it takes the argument."""

from __future__ import annotations

import pytest

from nki_agent.builtin.clashes import find_clashes
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from tests.builtin.conftest import MakeTask
from tests.builtin.test_mended import Solve

NAMED = """
import torch

SHAPES = {{"dev": {{"M": 74, "N": 93}}, "odd": {{"M": 59, "N": 68}}}}
INPUTS = {{"{first}": "float32[M, N]", "{second}": "float32[M, N]"}}
OUTPUTS = {{"y": "float32[M, N]"}}


def reference({first}, {second}):
    return torch.softmax({first} + {second}, -1)
"""
SOURCE = """
import nki.language as nl
SIZE = 128
def turn(x):
    x = x.reshape_dim(0, (2, 3)).permute((1, 0))
    return x
def kernel(x, rows, SIZE, turn, k, place):
    rows = min(3, 4)
    for k in range(3):
        x[place] = k
    return x
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [("num_rows", "num_cols"), ("x", "x_tile"), ("rows", "r0"), ("nl", "PARTITIONS")],
)
def test_arguments_may_be_called_as_what_a_kernel_uses(
    first: str, second: str, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(NAMED.format(first=first, second=second))
    source = write_kernel(task, Target.TRN2)
    assert not find_clashes(source, {first, second})
    assert solve(task).right


def test_only_what_is_hidden_is_renamed() -> None:
    names = {"x", "rows", "SIZE", "turn", "k", "place"}
    assert set(find_clashes(SOURCE, names)) == {"rows", "SIZE", "turn", "k"}
    assert find_clashes(SOURCE, names)["rows"] == "rows_in"
