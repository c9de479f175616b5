"""Product of two float32 matrices, of which the right one is stored transposed."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 300},
    "odd": {"M": 67, "K": 150, "N": 131},
    "perf": {"M": 2048, "K": 4096, "N": 2048},
}
INPUTS = {"left": "float32[M, K]", "right": "float32[N, K] weight_out_in"}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "F2"


class Model(nn.Module):
    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return left @ right.T
