"""Product of a large matrix and a vector in bfloat16, as in decoding one token."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 257, "K": 300},
    "odd": {"M": 101, "K": 411},
    "perf": {"M": 16384, "K": 4096},
}
INPUTS = {"matrix": "bfloat16[M, K]", "vector": "bfloat16[K] small"}
OUTPUTS = {"y": "bfloat16[M]"}
TOLERANCE = "B1"


class Model(nn.Module):
    def forward(self, matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
        return torch.mv(matrix, vector)
