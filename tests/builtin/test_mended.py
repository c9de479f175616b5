"""Kernels of forms that were once refused or wrong: each is a kind, by what was at fault."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

Solve = Callable[..., Verdict]
MENDED = (
    # A tile that is read beside two others, one of which lies in PSUM already.
    (Operator("parked beside parked", "(lambda a, s: a * 1.25 * s + y * (1 - s) * (a * 1.25 + y))"
              "(x * y, torch.sigmoid(y))", ((141, 128), (141, 128))), "float32"),
    (Operator("square of a parked tile", "(lambda s: s * s + s * x)(torch.exp(x) * torch.tanh(x))",
              ((1500, 1000),)), "float32"),
    # One number of each row, repeated in short rows that share a partition.
    (Operator("short rows of one number",
              "torch.where(x == x.amax(-1, keepdim=True), y[..., None], 0.0) * 2.0 + x",
              ((150, 40, 11), (150, 40))), "float32"),
    # Whole rows in SBUF, and the rows of the tensor that they are from.
    (Operator("rows from both ends", "0.7 * x.flip(-1) + 0.3 * x", ((2, 70, 186),)), "bfloat16"),
    # A value less what it is clipped to, which is nothing for small values.
    (Operator("soft threshold of a norm",
              "F.softshrink((F.conv_transpose1d(x, y, stride=2) - z[:, None]) * z[:, None], 0.25)",
              ((2, 15, 75), (15, 6, 2), (6,))), "float32"),
)  # fmt: skip
SAME_NAME = """
import torch

SHAPES = {"dev": {"M": 74, "N": 93}, "odd": {"M": 59, "N": 68}}
INPUTS = {"grad": "float32[M, N]", "x": "float32[M, N]", "gain": "float32[N]"}
OUTPUTS = {"x": "float32[M, N]", "gain": "float32[N]"}


def reference(grad, x, gain):
    return grad * gain, (grad * x).sum(dim=0)
"""


@pytest.mark.parametrize(("operator", "dtype"), MENDED, ids=[o.name for o, _ in MENDED])
def test_kernel_of_mended_kind_is_right(
    operator: Operator, dtype: str, make_task: MakeTask, solve: Solve
) -> None:
    verdict = solve(make_task(operator.source(dtype)))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_result_may_have_the_name_of_an_argument(make_task: MakeTask, solve: Solve) -> None:
    verdict = solve(make_task(SAME_NAME))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
