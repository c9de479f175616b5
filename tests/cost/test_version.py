"""Latencies change only with the version of the cost model."""

from pathlib import Path

import pytest

from nki_agent.chip.spec import Target
from nki_agent.cost.version import MODEL_VERSION
from nki_agent.task.loader import load_task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel

FROZEN = Path(__file__).parent / "frozen"
TASKS = {
    "linear": """
import torch
from torch import nn

SHAPES = {"dev": {"M": 300, "K": 200, "N": 600}}
INPUTS = {"x": "bfloat16[M, K]"}
PARAMETERS = {"layer.weight": "bfloat16[N, K] weight_out_in", "layer.bias": "bfloat16[N] bias"}
OUTPUTS = {"y": "bfloat16[M, N]"}


class Model(nn.Module):
    def __init__(self, K, N):
        super().__init__()
        self.layer = nn.Linear(K, N, dtype=torch.bfloat16)

    def forward(self, x):
        return nn.functional.gelu(self.layer(x))
""",
    "attention": """
import torch

SHAPES = {"dev": {"M": 150, "N": 140}}
INPUTS = {"x": "bfloat16[2, M, 64]", "y": "bfloat16[2, N, 64]", "z": "bfloat16[2, N, 32]"}
OUTPUTS = {"out": "bfloat16[2, M, 32]"}


def reference(x, y, z):
    return torch.nn.functional.scaled_dot_product_attention(x, y, z)
""",
}
LATENCIES_NS = {
    (1, "linear", Target.TRN1): 10772.092436974788,
    (1, "linear", Target.TRN2): 10406.13725490196,
    (1, "linear", Target.TRN3): 8429.333333333332,
    (1, "attention", Target.TRN1): 10125.88571428572,
    (1, "attention", Target.TRN2): 9673.400000000003,
    (1, "attention", Target.TRN3): 7852.33333333333,
    # 2: `nc_matmul` in double_row mode takes the cycles of one row set.
    (2, "linear", Target.TRN1): 10772.092436974788,
    (2, "linear", Target.TRN2): 10406.13725490196,
    (2, "linear", Target.TRN3): 8429.333333333332,
    (2, "attention", Target.TRN1): 10125.88571428572,
    (2, "attention", Target.TRN2): 9673.400000000003,
    (2, "attention", Target.TRN3): 7852.33333333333,
}
"""By version of the model, frozen kernel and target."""


@pytest.mark.parametrize("target", [Target.TRN1, Target.TRN2, Target.TRN3])
@pytest.mark.parametrize("name", TASKS)
def test_latency_moves_only_with_the_version(name: str, target: Target, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.py"
    path.write_text(TASKS[name])
    kernel = Kernel.from_text((FROZEN / f"{name}.txt").read_text())
    with Judge(target=target) as judge:
        found = judge.look(kernel, load_task(path).dev)
    assert found.summary is not None, found.diagnostics
    assert found.summary.latency_ns == pytest.approx(
        LATENCIES_NS[MODEL_VERSION, name, target], rel=1e-9
    ), "raise MODEL_VERSION, and add its latencies here"
