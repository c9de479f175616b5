"""Product of two matrices in bfloat16 that are both stored transposed."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 300},
    "odd": {"M": 67, "K": 150, "N": 131},
    "perf": {"M": 2048, "K": 4096, "N": 2048},
}
INPUTS = {"left": "bfloat16[K, M]", "right": "bfloat16[N, K] weight_out_in"}
OUTPUTS = {"y": "bfloat16[M, N]"}
TOLERANCE = "B1"


class Model(nn.Module):
    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return left.T @ right.T
