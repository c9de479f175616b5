"""Convolution over volumes with a kernel of three in each direction, same size."""

import torch
from torch import nn
from torch.nn import functional as F

SHAPES = {
    "dev": {"B": 1, "C": 4, "D": 6, "H": 8, "W": 8, "OC": 6},
    "odd": {"B": 2, "C": 3, "D": 5, "H": 7, "W": 9, "OC": 11},
    "perf": {"B": 4, "C": 16, "D": 16, "H": 56, "W": 56, "OC": 32},
}
INPUTS = {"x": "float32[B, C, D, H, W]"}
PARAMETERS = {"weight": "float32[OC, C, 3, 3, 3] weight_out_in"}
OUTPUTS = {"y": "float32[B, OC, D, H, W]"}
TOLERANCE = "F2"

KERNEL = 3
PADDING = 1


class Model(nn.Module):
    def __init__(self, C: int, OC: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(OC, C, KERNEL, KERNEL, KERNEL))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv3d(x, self.weight, padding=PADDING)
