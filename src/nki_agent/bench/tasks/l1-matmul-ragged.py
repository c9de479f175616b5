"""Product of two float32 matrices whose sizes are no multiples of a tile."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 131, "K": 203, "N": 77},
    "odd": {"M": 90, "K": 177, "N": 143},
    "perf": {"M": 1000, "K": 1500, "N": 700},
}
INPUTS = {"left": "float32[M, K]", "right": "float32[K, N] weight"}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "F2"


class Model(nn.Module):
    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return left @ right
