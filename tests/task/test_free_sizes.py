"""Sizes that no tensor tells become arguments; all others are read from axes."""

from pathlib import Path

import pytest

from nki_agent.task.declaration import Declared, read_declaration
from nki_agent.task.free_sizes import find_free
from nki_agent.task.loader import load_task
from nki_agent.task.task import StaticArgument

SHAPES = {
    "dev": {"B": 2, "E": 48, "H": 4, "D": 12, "N": 6},
    "odd": {"B": 3, "E": 50, "H": 5, "D": 10, "N": 7},
}


def declare(*shapes: str) -> Declared:
    inputs = {
        f"x{n}": read_declaration(f"float32[{shape}]", what="x") for n, shape in enumerate(shapes)
    }
    return Declared(shapes=SHAPES, inputs=inputs, parameters={}, outputs={}, work={})


@pytest.mark.parametrize(
    ("axes", "free"),
    [
        (("B, E",), ("H", "D", "N")),
        (("H, E", "B, D"), ("N",)),
        (("B, H * D", "D, N"), ()),
        (("2 * E + H, E",), ("D", "N")),
        (("3 * H * D, N - H",), ("H",)),
        (("D // 2, H", "B, N"), ()),
        (("D // 4, H", "B, N"), ("D",)),
        (("D * D, H", "B, N"), ("D",)),
        (("H * D, H * (D + N)",), ("H",)),
        (("10 - H, D, N",), ()),
    ],
)
def test_size_is_free_where_no_axis_tells_it(axes: tuple[str, ...], free: tuple[str, ...]) -> None:
    wanted = set("HDN")
    assert find_free(declare(*axes), wanted) == free


def test_size_that_nothing_needs_is_no_argument() -> None:
    assert find_free(declare("B, E"), {"H"}) == ("H",)


HEADS = """
import torch
from torch import nn

SHAPES = {"dev": {"M": 12, "E": 24, "H": 3}, "odd": {"M": 7, "E": 20, "H": 5}}
INPUTS = {"x": "float32[M, E]"}
OUTPUTS = {"y": "float32[M, E]"}


class Model(nn.Module):
    def __init__(self, H: int) -> None:
        super().__init__()
        self.num_heads = H

    def forward(self, x):
        return torch.softmax(x.unflatten(-1, (self.num_heads, -1)), dim=-1).flatten(-2)
"""


def test_free_size_follows_the_tensors_as_a_number(tmp_path: Path) -> None:
    path = tmp_path / "heads.py"
    path.write_text(HEADS)
    task = load_task(path)
    found = [shapes.arguments[-1] for shapes in task.shape_sets]
    assert found == [StaticArgument(name="H", value=3), StaticArgument(name="H", value=5)]
    assert [a.name for a in task.arguments] == ["x", "H"]


def test_declared_task_can_be_had_at_other_sizes(tmp_path: Path) -> None:
    path = tmp_path / "heads.py"
    path.write_text(HEADS)
    task = load_task(path)
    assert task.resize is not None
    shapes = task.resize({"M": 9, "E": 8, "H": 2})
    assert (shapes.outputs[0].shape, shapes.arguments[-1]) == (
        (9, 8),
        StaticArgument(name="H", value=2),
    )
