"""Rotary position embedding in float32, rotating each pair of neighbouring features."""

import torch
from torch import nn

SHAPES = {
    "dev": {"B": 2, "H": 3, "S": 65, "D": 32},
    "odd": {"B": 1, "H": 5, "S": 93, "D": 46},
    "perf": {"B": 2, "H": 16, "S": 4096, "D": 64},
}
INPUTS = {
    "x": "float32[B, H, S, D]",
    "cosine": "float32[S, D // 2] cosine",
    "sine": "float32[S, D // 2] sine",
}
OUTPUTS = {"y": "float32[B, H, S, D]"}
TOLERANCE = "F1"


class Model(nn.Module):
    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        even, odd = x[..., 0::2], x[..., 1::2]
        pairs = torch.stack([even * cosine - odd * sine, odd * cosine + even * sine], dim=-1)
        return pairs.flatten(-2)
