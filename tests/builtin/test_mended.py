"""Kernels of forms that were once refused or wrong: each is a kind, by what was at fault."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
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
    # A reduction over the channels of pooled values, which lie in its order already.
    (Operator("share of the channels",
              "(lambda p: x * (p / (p.mean(1, keepdim=True) + 1)))(x.square().sum((2, 3), True))",
              ((3, 9, 11, 7),)), "float32"),
    (Operator("logsumexp of pooled channels",
              "torch.logsumexp(x.mean((2, 3), keepdim=True) + y, 1, keepdim=True)",
              ((4, 32, 9, 8), (32, 1, 1))), "float32"),
    # A row that is the same for all rows of the result.
    (Operator("softmax of one row", "x.softmax(-1) + y", ((300,), (150, 300))), "float32"),
    (Operator("softmax of one short row", "x.softmax(-1) * y + x.amax(-1)",
              ((30,), (1500, 30))), "float32"),
    (Operator("mean of one long row", "(x - x.mean(-1)) * y", ((30000,), (150, 30000))),
     "float32"),
    # A number for each of some reduced axes beside a reduction over all of them.
    (Operator("group norm of volumes", "F.group_norm(x + 1, 3, y, z)",
              ((2, 18, 4, 6, 16), (18,), (18,))), "float32"),
    (Operator("sum over what is scaled by column", "(x * y).sum((2, 3))",
              ((3, 14, 15, 10), (10,))), "float32"),
    # Rows in strips, with a number for each row that several images share.
    (Operator("long rows of a period",
              "(lambda h: (h / (1 + h.abs())).mean((2, 3)))(x + torch.tanh(x) * y[:, None, None])",
              ((4, 8, 120, 120), (8,))), "float32"),
)  # fmt: skip
SHARE = Operator("share", "x / x.sum(1, keepdim=True)", ((3, 9, 1, 1),))
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


def test_share_of_the_channels_is_read_once(make_task: MakeTask) -> None:
    text = write_kernel(make_task(SHARE.source("float32")), Target.TRN2)
    assert text.count("for r0 in range") == 1
    assert "for i in range" not in text
