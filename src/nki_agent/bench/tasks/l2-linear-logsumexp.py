"""Linear layer with bias, then log-sum-exp over each row of its output, in float32."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 300},
    "odd": {"M": 69, "K": 151, "N": 413},
    "perf": {"M": 2048, "K": 1024, "N": 8192},
}
INPUTS = {"x": "float32[M, K]"}
PARAMETERS = {"weight": "float32[K, N] weight", "bias": "float32[N]"}
OUTPUTS = {"y": "float32[M]"}
TOLERANCE = "F2"


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(K, N))
        self.bias = nn.Parameter(torch.empty(N))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(x @ self.weight + self.bias, dim=-1)
