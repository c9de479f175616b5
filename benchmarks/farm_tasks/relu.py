"""ReLU of a matrix in float32."""

import torch
from torch import nn

SHAPES = {"dev": {"M": 257, "N": 300}, "odd": {"M": 131, "N": 77}}
INPUTS = {"x": "float32[M, N]"}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "EX"


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)
