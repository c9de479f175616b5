"""GEGLU in bfloat16: one linear layer gives values and gates; values times exact GELU of gates."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "S": 65, "K": 96, "N": 64},
    "odd": {"B": 3, "S": 41, "K": 150, "N": 77},
    "perf": {"B": 4, "S": 1024, "K": 1024, "N": 2048},
}
INPUTS = {"x": "bfloat16[B, S, K]"}
PARAMETERS = {"weight": "bfloat16[K, 2 * N] weight", "bias": "bfloat16[2 * N]"}
OUTPUTS = {"y": "bfloat16[B, S, N]"}
TOLERANCE = "B2"


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(K, 2 * N, dtype=torch.bfloat16))
        self.bias = nn.Parameter(torch.empty(2 * N, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = (x @ self.weight + self.bias).chunk(2, dim=-1)
        return value * F.gelu(gate)
