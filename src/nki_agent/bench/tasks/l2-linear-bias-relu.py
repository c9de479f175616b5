"""Linear layer with bias, then ReLU, in float32."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 300},
    "odd": {"M": 93, "K": 257, "N": 141},
    "perf": {"M": 2048, "K": 2048, "N": 2048},
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
        return torch.relu(x @ self.weight + self.bias)
