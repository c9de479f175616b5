"""Linear layer with bias, then GELU in its tanh approximation, in bfloat16."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 300},
    "odd": {"M": 97, "K": 143, "N": 265},
    "perf": {"M": 4096, "K": 1024, "N": 4096},
}
INPUTS = {"x": "bfloat16[M, K]"}
PARAMETERS = {"weight": "bfloat16[K, N] weight", "bias": "bfloat16[N]"}
OUTPUTS = {"y": "bfloat16[M, N]"}
TOLERANCE = "B2"


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(K, N, dtype=torch.bfloat16))
        self.bias = nn.Parameter(torch.empty(N, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x @ self.weight + self.bias, approximate="tanh")
