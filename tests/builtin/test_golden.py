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
    Operator("tril", "torch.tril(x)", ((150, 300),)),
)


@pytest.mark.parametrize("operator", KERNELS, ids=lambda o: o.name)
def test_kernel_reads_as_written(operator: Operator, make_task: MakeTask) -> None:
    text = write_kernel(make_task(operator.source("bfloat16")), Target.TRN2)
    path = GOLDEN / f"{operator.name}.txt"
    if os.environ.get("REMAKE"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 100
