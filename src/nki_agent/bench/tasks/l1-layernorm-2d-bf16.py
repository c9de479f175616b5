"""Layer normalisation of each row of a matrix, with gain and bias, in bfloat16."""

import torch
from torch import nn
from torch.nn import functional as F

SHAPES = {
    "dev": {"M": 130, "N": 300},
    "odd": {"M": 67, "N": 411},
    "perf": {"M": 8192, "N": 2048},
}
INPUTS = {"x": "bfloat16[M, N]"}
PARAMETERS = {"gain": "bfloat16[N] gain", "bias": "bfloat16[N] bias"}
OUTPUTS = {"y": "bfloat16[M, N]"}
TOLERANCE = "B1"

EPSILON = 1e-5


class Model(nn.Module):
    def __init__(self, N: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.empty(N, dtype=torch.bfloat16))
        self.bias = nn.Parameter(torch.empty(N, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, self.gain.shape, self.gain, self.bias, EPSILON)
