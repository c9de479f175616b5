"""Attention scores before scale and softmax: queries times keys of each head, in bfloat16."""

import torch
from torch import nn

SHAPES = {
    "dev": {"B": 2, "H": 3, "S": 65, "D": 64, "T": 130},
    "odd": {"B": 4, "H": 5, "S": 41, "D": 48, "T": 83},
    "perf": {"B": 2, "H": 16, "S": 1024, "D": 128, "T": 1024},
}
INPUTS = {"query": "bfloat16[B, H, S, D]", "key": "bfloat16[B, H, T, D]"}
OUTPUTS = {"scores": "bfloat16[B, H, S, T]"}
TOLERANCE = "B1"


class Model(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return torch.matmul(query, key.transpose(-1, -2))
