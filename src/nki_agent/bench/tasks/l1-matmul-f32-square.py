"""Product of two square float32 matrices."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 300},
    "odd": {"M": 67, "K": 150, "N": 131},
    "perf": {"M": 2048, "K": 2048, "N": 2048},
}
INPUTS = {"left": "float32[M, K]", "right": "float32[K, N] weight"}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "F2"


class Model(nn.Module):
    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return left @ right
