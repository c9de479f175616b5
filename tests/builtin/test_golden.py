"""Kernels as a reader sees them; `REMAKE=1` before pytest writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

GOLDEN = Path(__file__).parent / "golden"
KERNELS = (
    Operator("softmax", "F.softmax(x, -1)", ((500, 300),)),
    Operator("linear", "F.gelu(self.layer(x))", ((300, 200),), "nn.Linear(200, 600)"),
    Operator(
        "attention",
        "F.scaled_dot_product_attention(x, y, z)",
        ((2, 150, 64), (2, 140, 64), (2, 140, 32)),
    ),
    Operator("running_sum", "torch.cumsum(x * y, -1)", ((500, 300), (300,))),
    Operator("recurrence", "rnn(x, y, z)", ((4, 20, 96), (4, 96), (96, 96))),
    Operator(
        "convolution",
        "F.silu(F.conv2d(x, y, z, padding=1))",
        ((2, 64, 56, 50), (70, 64, 3, 3), (70,)),
    ),
    Operator("depthwise", "F.conv1d(F.pad(x, (3, 0)), y, groups=140)", ((2, 140, 50), (140, 1, 4))),
    Operator(
        "transposed", "F.conv_transpose2d(x, y, stride=2, padding=1)", ((2, 5, 9, 8), (5, 6, 4, 4))
    ),
    Operator("pool", "F.max_pool2d(x, 3, 2, 1)", ((2, 70, 14, 11),)),
    Operator("group_norm", "F.group_norm(x, 3, y, z)", ((2, 6, 7, 8), (6,), (6,))),
    Operator(
        "causal_attention",
        "F.scaled_dot_product_attention(x, y, z, is_causal=True)",
        ((2, 150, 64), (2, 150, 64), (2, 150, 32)),
    ),
    Operator(
        "rotary",
        "torch.cat([x[..., :32] * y - x[..., 32:] * z, x[..., 32:] * y + x[..., :32] * z], -1)",
        ((2, 150, 64), (150, 32), (150, 32)),
    ),
    Operator("sum of columns", "x.sum(0)", ((300, 70),)),
    Operator("five axes", "x.permute(0, 3, 1, 4, 2).contiguous()", ((2, 9, 6, 11, 7),)),
    Operator("outer", "x[:, None, :, None] * y[None, :, None, :]", ((140, 9), (5, 7))),
    Operator("states", "states(x, y)", ((1, 30, 140), (1, 30, 7))),
    Operator("tril", "torch.tril(x)", ((150, 300),)),
)
LOOPS = """

def rnn(x, h, w):
    states = []
    for now in x.unbind(1):
        h = torch.tanh(now + 0.05 * (h @ w))
        states.append(h)
    return torch.stack(states, 1)


def states(x, y):
    added = x[..., None] * y[:, :, None]
    state = torch.zeros_like(added[:, 0])
    states = []
    for now in added.unbind(1):
        state = 0.9 * state + now
        states.append(state)
    return (torch.stack(states, 1) * y[:, :, None]).sum(-1)
"""


def golden_source(operator: Operator) -> str:
    """The task of a golden kernel."""
    return operator.source("bfloat16") + LOOPS


@pytest.mark.parametrize("operator", KERNELS, ids=lambda o: o.name)
def test_kernel_reads_as_written(operator: Operator, make_task: MakeTask) -> None:
    text = write_kernel(make_task(golden_source(operator)), Target.TRN2)
    path = GOLDEN / f"{operator.name}.txt"
    if os.environ.get("REMAKE"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 100
