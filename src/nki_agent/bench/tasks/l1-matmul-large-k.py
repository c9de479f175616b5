"""Product of a wide and a tall float32 matrix: few outputs, each a very long sum."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 64, "K": 1000, "N": 48},
    "odd": {"M": 37, "K": 777, "N": 53},
    "perf": {"M": 256, "K": 65536, "N": 256},
}
INPUTS = {"left": "float32[M, K]", "right": "float32[K, N] weight"}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "F2"


class Model(nn.Module):
    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return left @ right
