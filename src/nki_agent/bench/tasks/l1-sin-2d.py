"""Sine of a matrix of angles between -pi and pi."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "N": 300},
    "odd": {"M": 67, "N": 411},
    "perf": {"M": 4096, "N": 4096},
}
INPUTS = {"angle": "float32[M, N] angle"}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "F2"


class Model(nn.Module):
    def forward(self, angle: torch.Tensor) -> torch.Tensor:
        return torch.sin(angle)
