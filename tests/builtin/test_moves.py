"""What is moved, put side by side or chosen by position is right at two sizes of one kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nki_agent.chip.spec import Target
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import HEAD, Operator, Shapes

Solve = Callable[..., Verdict]
QKV = ((2, 3, 130, 32),) * 3
QKV_LARGER = ((1, 2, 260, 48),) * 3
CASES: tuple[tuple[Operator, Shapes], ...] = (
    (Operator("cat of columns", "torch.cat([x, y], -1)", ((130, 96), (130, 33))),
     ((67, 50), (67, 83))),
    (Operator("cat of rows", "torch.cat([x * 2, y, x], 0)", ((130, 96), (7, 96))),
     ((67, 50), (80, 50))),
    (Operator("stack", "torch.stack([x + y, x - y], 1)", ((130, 60), (130, 60))),
     ((70, 90), (70, 90))),
    (Operator("pad", "F.pad(x, (1, 2, 2, 1), value=0.5)", ((2, 3, 20, 14),)), ((3, 5, 11, 33),)),
    (Operator("cut pad", "F.pad(x, (-1, 2))", ((40, 50),)), ((130, 33),)),
    (Operator("flip of columns", "torch.flip(x, (1,)) + y", ((130, 60), (130, 60))),
     ((70, 90), (70, 90))),
    (Operator("flip of both", "torch.flip(x, (0, 1))", ((130, 60),)), ((70, 90),)),
    (Operator("roll", "torch.roll(x, (5, -3), (0, 1))", ((130, 60),)), ((70, 90),)),
    (Operator("repeat", "x.repeat(2, 3) * 2", ((130, 60),)), ((70, 90),)),
    (Operator("repeat heads", "x.repeat_interleave(4, dim=1)", ((2, 3, 40, 20),)),
     ((1, 2, 130, 16),)),
    (Operator("pixel shuffle", "F.pixel_shuffle(x, 2)", ((2, 8, 7, 9),)), ((3, 20, 5, 6),)),
    (Operator("tril", "torch.tril(x, 2)", ((3, 130, 60),)), ((2, 70, 90),)),
    (Operator("triu", "torch.triu(x, -1) + 1", ((130, 60),)), ((70, 90),)),
    (Operator("positions", "x * torch.arange(x.shape[1])", ((130, 60),)), ((70, 90),)),
    (Operator("mask of two tests",
              "x.masked_fill((torch.arange(x.shape[1]) > 3)"
              " & (torch.arange(x.shape[0])[:, None] < 40), -1.0)", ((130, 60),)), ((70, 90),)),
    (Operator("mask of rows", "torch.where(y[:, None] > 0, x, -1.0)", ((130, 60), (130,))),
     ((700, 40), (700,))),
    (Operator("mask of columns", "torch.where(y > 0, x, -1.0)", ((130, 60), (60,))),
     ((700, 40), (40,))),
    (Operator("rotary halves",
              "torch.cat([x[..., :16] * y - x[..., 16:] * z,"
              " x[..., 16:] * y + x[..., :16] * z], -1)",
              ((2, 3, 40, 32), (40, 16), (40, 16))), ((1, 2, 130, 32), (130, 16), (130, 16))),
    (Operator("rotary pairs",
              "torch.stack([x[..., 0::2] * y - x[..., 1::2] * z,"
              " x[..., 1::2] * y + x[..., 0::2] * z], -1).flatten(-2)",
              ((2, 3, 40, 32), (40, 16), (40, 16))), ((1, 2, 130, 48), (130, 24), (130, 24))),
    (Operator("every third column", "x[:, 1::3] + x[:, 2::3]", ((130, 90),)), ((70, 96),)),
    (Operator("even and odd", "(x[:, 0::2].contiguous(), x[:, 1::2] * 2)", ((300, 90),)),
     ((70, 96),)),
    (Operator("reversed halves", "x[:, :20].flip(1) - x[:, 20:40]", ((300, 90),)), ((70, 96),)),
    (Operator("causal softmax",
              "F.softmax((x @ y.transpose(-1, -2)).masked_fill("
              "~torch.ones(x.shape[-2], y.shape[-2], dtype=torch.bool).tril(), -1e9), -1)",
              ((3, 70, 32), (3, 70, 32))), ((2, 130, 48), (2, 130, 48))),
)  # fmt: skip
ATTENTION: tuple[tuple[Operator, Shapes], ...] = (
    (Operator("causal", "F.scaled_dot_product_attention(x, y, z, is_causal=True)", QKV),
     QKV_LARGER),
    (Operator("capped",
              "torch.softmax(5 * torch.tanh(x @ y.transpose(-1, -2) / 5), -1) @ z", QKV),
     QKV_LARGER),
    (Operator("grouped",
              "F.scaled_dot_product_attention(x, y, z, is_causal=True, enable_gqa=True)",
              ((2, 4, 70, 32), (2, 2, 70, 32), (2, 2, 70, 32))),
     ((1, 6, 130, 48), (1, 2, 130, 48), (1, 2, 130, 48))),
    (Operator("decode of groups", "F.scaled_dot_product_attention(x, y, z, enable_gqa=True)",
              ((2, 4, 1, 32), (2, 2, 300, 32), (2, 2, 300, 32))),
     ((1, 6, 1, 48), (1, 2, 150, 48), (1, 2, 150, 48))),
    (Operator("window",
              "F.scaled_dot_product_attention(x, y, z, attn_mask="
              "(torch.arange(x.shape[-2])[:, None] >= torch.arange(x.shape[-2]))"
              " & (torch.arange(x.shape[-2])[:, None] - torch.arange(x.shape[-2]) < 40))", QKV),
     QKV_LARGER),
    (Operator("padding mask",
              "F.scaled_dot_product_attention(x, y, z, attn_mask=(w > -2)[:, None, None])",
              (*QKV, (2, 130))), (*QKV_LARGER, (1, 260))),
    (Operator("bias of heads", "F.scaled_dot_product_attention(x, y, z, attn_mask=w)",
              (*QKV, (3, 130, 130))), (*QKV_LARGER, (2, 260, 260))),
    (Operator("slopes",
              "torch.softmax(x @ y.transpose(-1, -2) - w.abs()[:, None, None]"
              " * (torch.arange(x.shape[-2])[:, None] - torch.arange(x.shape[-2])).abs(), -1) @ z",
              (*QKV, (3,))), (*QKV_LARGER, (2,))),
)  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "other"), [*CASES, *ATTENTION], ids=lambda o: getattr(o, "name", "")
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_one_kernel_of_moves_fits_two_sizes(
    operator: Operator, other: Shapes, dtype: str, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source(dtype))
    larger = make_task(operator.source(dtype, other))
    verdict = solve(replace(task, perf=replace(larger.dev, name="perf")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


BITS = """
def reference(x, y):
    return (x ^ (x >> 7)) & 0xFFFF, x | (y << 2), x & y


def inputs():
    return [torch.randint(0, 1 << 20, (130, 70)).int(), torch.randint(0, 99, (130, 70)).int()]
"""


@pytest.mark.parametrize("target", [Target.TRN1, Target.TRN2, Target.TRN3])
def test_bits_of_whole_numbers_are_exact(target: Target, make_task: MakeTask, solve: Solve) -> None:
    verdict = solve(make_task(HEAD + BITS), target)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
