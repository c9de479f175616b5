"""A linear layer without bias."""

import torch
from torch import nn

SHAPES = {"dev": {"M": 100, "K": 96, "N": 40}}
INPUTS = {"x": "float32[M, K]"}
PARAMETERS = {"weight": "float32[K, N] weight"}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "F2"


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(K, N))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight
