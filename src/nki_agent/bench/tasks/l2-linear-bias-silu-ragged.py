"""Linear layer with bias, then SiLU, in float32. No size is a multiple of 128."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"M": 131, "K": 203, "N": 77},
    "odd": {"M": 45, "K": 119, "N": 233},
    "perf": {"M": 1500, "K": 1000, "N": 3000},
}
INPUTS = {"x": "float32[M, K]"}
PARAMETERS = {"weight": "float32[K, N] weight", "bias": "float32[N]"}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "F2"


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(K, N))
        self.bias = nn.Parameter(torch.empty(N))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(x @ self.weight + self.bias)
