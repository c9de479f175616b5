"""What a kernel says of a size holds at sizes that its author never saw."""

from __future__ import annotations

import pytest

from nki_agent.builtin.graph import UnsupportedError
from nki_agent.builtin.probes import make_probes
from nki_agent.builtin.sizes import derive_run, derive_shifted, derive_size
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
    ("value", "text"),
    [
        ((6, 11, 18), "(a + 2)"),
        ((15, 20, 49), "(b // 2)"),
        ((5, 6, 77), None),
        # The first and the last of the sizes say no more than the others.
        ((5, 1, 48), "(c - 2)"),
    ],
)
def test_number_beside_a_size_is_padding_or_a_window(
    value: tuple[int, ...], text: str | None
) -> None:
    assert derive_shifted(NAMED, value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((3 * 840, 8 * 1107, 15 * 79200), "(a - 1) * b * c * d"),
        ((840, 3321, 79200), "a * b * c * d // a"),
        ((7, 11, 13), None),
    ],
)
def test_size_is_what_a_run_of_axes_reaches_over(value: tuple[int, ...], text: str | None) -> None:
    runs = [("b * c * d", (840, 1107, 79200)), ("a * b * c * d", (3360, 29889, 1267200))]
    assert derive_run(NAMED, runs, value) == text


FLIPPED = """
import torch

SHAPES = {
    "dev": {"B": 2, "C": 16, "T": 4, "H": 8, "W": 9},
    "odd": {"B": 3, "C": 4, "T": 7, "H": 5, "W": 6},
}
INPUTS = {"x": "float32[B, C, T, H, W]"}
OUTPUTS = {"y": "float32[B, C, T, H, W]"}


def reference(x):
    return torch.tanh(x.flip(1) + x)
"""
IN_TURN = """
import torch
from torch import nn

SHAPES = {
    "dev": {"B": 2, "G": 2, "C": 2, "H": 9, "W": 9},
    "odd": {"B": 4, "G": 5, "C": 6, "H": 7, "W": 14},
}
INPUTS = {"x": "float32[B, G * C, H, W]"}
OUTPUTS = {"y": "float32[B, C * G, H, W]"}


class Model(nn.Module):
    def __init__(self, G: int) -> None:
        super().__init__()
        self.num_groups = G

    def forward(self, x):
        return torch.sigmoid(x).unflatten(1, (self.num_groups, -1)).transpose(1, 2).flatten(1, 2)
"""
OVER_OTHERS = """
import torch

SHAPES = {
    "dev": {"B": 3, "C": 9, "T": 5, "H": 5, "W": 6},
    "odd": {"B": 5, "C": 12, "T": 7, "H": 6, "W": 8},
}
INPUTS = {"x": "float32[B, C, T, H, W]"}
OUTPUTS = {"y": "float32[C]"}


def reference(x):
    return x.exp().mean(dim=(0, 2, 3, 4))
"""


@pytest.mark.parametrize("source", [FLIPPED, IN_TURN, OVER_OTHERS])
def test_size_of_many_axes_is_said_by_all_of_them(
    make_task: MakeTask, judges: dict[Target, Judge], source: str
) -> None:
    task = make_task(source)
    text = write_kernel(task, Target.TRN2)
    verdict = judges[Target.TRN2].judge(Kernel.from_text(text), task, root_seed=1)
    assert verdict.right, [str(d) for d in verdict.diagnostics]
