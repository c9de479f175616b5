"""Centring: each row of a matrix less a number of its own, such as its mean."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "N": 300},
    "odd": {"M": 67, "N": 411},
    "perf": {"M": 4096, "N": 4096},
}
INPUTS = {"x": "float32[M, N]", "row_mean": "float32[M]"}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "F1"


class Model(nn.Module):
    def forward(self, x: torch.Tensor, row_mean: torch.Tensor) -> torch.Tensor:
        return x - row_mean.unsqueeze(1)
