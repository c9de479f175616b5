"""Products of two batches of matrices in bfloat16."""

import torch
from torch import nn

SHAPES = {
    "dev": {"B": 3, "M": 65, "K": 96, "N": 130},
    "odd": {"B": 5, "M": 41, "K": 72, "N": 83},
    "perf": {"B": 32, "M": 512, "K": 512, "N": 512},
}
INPUTS = {"left": "bfloat16[B, M, K]", "right": "bfloat16[B, K, N] weight"}
OUTPUTS = {"y": "bfloat16[B, M, N]"}
TOLERANCE = "B1"


class Model(nn.Module):
    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return torch.bmm(left, right)
