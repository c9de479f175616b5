"""A linear layer without bias."""

import torch
from torch import nn

SHAPES = {"dev": {"rows": 100, "depth": 96, "columns": 40}}
INPUTS = {"x": "float32[rows, depth]"}
PARAMETERS = {"weight": "float32[depth, columns] weight"}
OUTPUTS = {"y": "float32[rows, columns]"}
TOLERANCE = "F2"


class Model(nn.Module):
    def __init__(self, depth: int, columns: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(depth, columns))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight
