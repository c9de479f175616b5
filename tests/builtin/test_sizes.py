"""What a kernel says of a size holds at sizes that its author never saw."""

from __future__ import annotations

import pytest

from nki_agent.builtin.graph import UnsupportedError
from nki_agent.builtin.probes import make_probes
from nki_agent.builtin.sizes import derive_shifted, derive_size
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.task.sizes_text import put_sizes
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from tests.builtin.conftest import MakeTask

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
BY_CHANCE = """
import torch

SHAPES = {"dev": {"M": 12, "N": 12}, "odd": {"M": 7, "N": 7}}
INPUTS = {"x": "float32[M, 30]", "w": "float32[30, N] weight", "b": "float32[N]"}
OUTPUTS = {"y": "float32[M, N]"}


def reference(x, w, b):
    return torch.relu(x @ w + b)
"""
LOOKED_UP = """
import torch

SHAPES = {"dev": {"M": 12, "E": 24}, "odd": {"M": 7, "E": 20}}
INPUTS = {"x": "float32[M, E]"}
OUTPUTS = {"y": "float32[M, E]"}
HEADS = {24: 3, 20: 10}


def reference(x):
    heads = HEADS[x.shape[1]]
    return torch.softmax(x.unflatten(-1, (heads, -1)), dim=-1).flatten(-2)
"""


@pytest.mark.parametrize(
    ("source", "others"),
    [
        (HEADS, {"M": 9, "E": 42, "H": 7}),
        (HEADS, {"M": 130, "E": 24, "H": 2}),
        (BY_CHANCE, {"M": 12, "N": 5}),
        (BY_CHANCE, {"M": 5, "N": 140}),
    ],
)
def test_kernel_is_right_at_sizes_that_its_author_never_saw(
    make_task: MakeTask, judges: dict[Target, Judge], source: str, others: dict[str, int]
) -> None:
    text = write_kernel(make_task(source), Target.TRN2)
    unseen = make_task(put_sizes(source, {"dev": others}))
    verdict = judges[Target.TRN2].judge(Kernel.from_text(text), unseen, root_seed=1)
    assert verdict.right, [str(d) for d in verdict.diagnostics]


def test_kernel_takes_a_size_that_no_tensor_tells(make_task: MakeTask) -> None:
    assert "def kernel(x, H):" in write_kernel(make_task(HEADS), Target.TRN2)


def test_size_that_follows_from_nothing_is_refused(make_task: MakeTask) -> None:
    with pytest.raises(UnsupportedError, match="follows from no argument"):
        write_kernel(make_task(LOOKED_UP), Target.TRN2)


def test_probes_have_other_sizes_and_are_always_the_same(make_task: MakeTask) -> None:
    task = make_task(HEADS)
    shapes = [[a.shape for a in probe.tensors] for probe in make_probes(task)]
    assert shapes
    assert shapes == [[a.shape for a in probe.tensors] for probe in make_probes(task)]
    own = [[a.shape for a in shape_set.tensors] for shape_set in task.shape_sets]
    assert all(shape not in own for shape in shapes)


def test_task_without_declared_sizes_has_no_probes(make_task: MakeTask) -> None:
    source = "import torch\n\ndef reference(x):\n    return torch.relu(x)\n\n"
    task = make_task(source + "def inputs():\n    return [torch.randn(3, 4)]\n")
    assert list(make_probes(task)) == []


NAMED = [("a", (4, 9, 16)), ("b", (30, 41, 99)), ("c", (7, 3, 50))]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((12, 27, 48), "3 * a"),
        ((34, 50, 115), "(a + b)"),
        ((22, 23, 67), "(b - 2 * a)"),
        ((19, 29, 33), "(b - a - c)"),
        ((120, 369, 1584), "a * b"),
        ((5, 6, 7), None),
        ((6, 11, 18), None),
    ],
)
def test_size_is_an_expression_of_sizes_alone(value: tuple[int, ...], text: str | None) -> None:
    assert derive_size(NAMED, value) == text


@pytest.mark.parametrize(
    ("value", "text"), [((6, 11, 18), "(a + 2)"), ((15, 20, 49), "(b // 2)"), ((5, 6, 77), None)]
)
def test_number_beside_a_size_is_padding_or_a_window(
    value: tuple[int, ...], text: str | None
) -> None:
    assert derive_shifted(NAMED, value) == text
