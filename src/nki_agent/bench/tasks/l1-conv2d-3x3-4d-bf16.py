"""Convolution over images with a kernel of three by three, same size, in bfloat16."""

import torch
from torch import nn
from torch.nn import functional as F

SHAPES = {
    "dev": {"B": 2, "C": 8, "H": 14, "W": 14, "OC": 12},
    "odd": {"B": 3, "C": 5, "H": 11, "W": 17, "OC": 13},
    "perf": {"B": 32, "C": 64, "H": 56, "W": 56, "OC": 128},
}
INPUTS = {"x": "bfloat16[B, C, H, W]"}
PARAMETERS = {"weight": "bfloat16[OC, C, 3, 3] weight_out_in"}
OUTPUTS = {"y": "bfloat16[B, OC, H, W]"}
TOLERANCE = "B1"

KERNEL = 3
PADDING = 1


class Model(nn.Module):
    def __init__(self, C: int, OC: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(OC, C, KERNEL, KERNEL, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, self.weight, padding=PADDING)
