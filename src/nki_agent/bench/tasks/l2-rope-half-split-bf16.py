"""Rotary position embedding in bfloat16, rotating the two halves of each head against each other.

The tables are in float32, and so is the rotation.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"B": 2, "H": 3, "S": 65, "D": 32},
    "odd": {"B": 1, "H": 5, "S": 51, "D": 44},
    "perf": {"B": 2, "H": 16, "S": 2048, "D": 128},
}
INPUTS = {
    "x": "bfloat16[B, H, S, D]",
    "cosine": "float32[S, D // 2] cosine",
    "sine": "float32[S, D // 2] sine",
}
OUTPUTS = {"y": "bfloat16[B, H, S, D]"}
TOLERANCE = "B1"


class Model(nn.Module):
    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        first, second = x.float().chunk(2, dim=-1)
        rotated = torch.cat(
            [first * cosine - second * sine, second * cosine + first * sine], dim=-1
        )
        return rotated.to(torch.bfloat16)
