"""Largest value of each row of a matrix in bfloat16."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "N": 300},
    "odd": {"M": 67, "N": 411},
    "perf": {"M": 8192, "N": 4096},
}
INPUTS = {"x": "bfloat16[M, N]"}
OUTPUTS = {"y": "bfloat16[M]"}
TOLERANCE = "EX"


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.amax(x, dim=1)
