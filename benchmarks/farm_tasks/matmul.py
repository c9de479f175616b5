"""A matrix product in float32."""

import torch
from torch import nn

SHAPES = {"dev": {"M": 130, "K": 200, "N": 300}, "odd": {"M": 67, "K": 150, "N": 131}}
INPUTS = {"a": "float32[M, K]", "b": "float32[K, N] weight"}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "F2"


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b
