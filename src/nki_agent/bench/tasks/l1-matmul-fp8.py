"""Product of two 8-bit float matrices, each with one scale for all of it, in float32."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 300},
    "odd": {"M": 67, "K": 150, "N": 131},
    "perf": {"M": 4096, "K": 4096, "N": 2048},
}
INPUTS = {
    "left": "float8_e4m3[M, K]",
    "right": "float8_e4m3[K, N]",
    "left_scale": "float32[1] positive",
    "right_scale": "float32[1] positive",
}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "F2"


class Model(nn.Module):
    def forward(
        self,
        left: torch.Tensor,
        right: torch.Tensor,
        left_scale: torch.Tensor,
        right_scale: torch.Tensor,
    ) -> torch.Tensor:
        product = left.to(torch.float32) @ right.to(torch.float32)
        return product * (left_scale * right_scale)
