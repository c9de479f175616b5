"""Outer product of two vectors."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 300, "N": 500},
    "odd": {"M": 111, "N": 389},
    "perf": {"M": 4096, "N": 8192},
}
INPUTS = {"column": "float32[M]", "row": "float32[N]"}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "F1"


class Model(nn.Module):
    def forward(self, column: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        return torch.outer(column, row)
