"""Linear layer without bias, added to a residual stream, in bfloat16."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 300},
    "odd": {"M": 71, "K": 317, "N": 155},
    "perf": {"M": 4096, "K": 4096, "N": 2048},
}
INPUTS = {"x": "bfloat16[M, K]", "residual": "bfloat16[M, N]"}
PARAMETERS = {"weight": "bfloat16[K, N] weight"}
OUTPUTS = {"y": "bfloat16[M, N]"}
TOLERANCE = "B2"


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(K, N, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + residual
