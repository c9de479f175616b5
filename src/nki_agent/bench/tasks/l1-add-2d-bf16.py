"""Residual addition: the sum of two matrices in bfloat16."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "N": 300},
    "odd": {"M": 67, "N": 411},
    "perf": {"M": 8192, "N": 4096},
}
INPUTS = {"x": "bfloat16[M, N]", "residual": "bfloat16[M, N]"}
OUTPUTS = {"y": "bfloat16[M, N]"}
TOLERANCE = "B1"


class Model(nn.Module):
    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return x + residual
