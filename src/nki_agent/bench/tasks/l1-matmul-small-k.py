"""Product of a tall and a wide float32 matrix that share a short inner dimension."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 257, "K": 32, "N": 300},
    "odd": {"M": 141, "K": 24, "N": 219},
    "perf": {"M": 8192, "K": 64, "N": 4096},
}
INPUTS = {"left": "float32[M, K]", "right": "float32[K, N] weight"}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "F2"


class Model(nn.Module):
    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return left @ right
