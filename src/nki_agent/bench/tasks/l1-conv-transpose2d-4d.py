"""Transposed convolution that doubles the height and width of a batch of images."""

import torch
from torch import nn
from torch.nn import functional as F

SHAPES = {
    "dev": {"B": 2, "C": 8, "H": 7, "W": 7, "OC": 6},
    "odd": {"B": 3, "C": 5, "H": 9, "W": 11, "OC": 4},
    "perf": {"B": 16, "C": 64, "H": 56, "W": 56, "OC": 64},
}
INPUTS = {"x": "float32[B, C, H, W]"}
PARAMETERS = {"weight": "float32[C, OC, 4, 4] weight_transposed"}
OUTPUTS = {"y": "float32[B, OC, 2 * H, 2 * W]"}
TOLERANCE = "F2"

KERNEL = 4
STRIDE = 2
PADDING = 1


class Model(nn.Module):
    def __init__(self, C: int, OC: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(C, OC, KERNEL, KERNEL))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv_transpose2d(x, self.weight, stride=STRIDE, padding=PADDING)
