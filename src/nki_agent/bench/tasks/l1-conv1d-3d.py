"""Convolution over sequences with a kernel of five, same length, with bias."""

import torch
from torch import nn
from torch.nn import functional as F

SHAPES = {
    "dev": {"B": 2, "C": 8, "L": 70, "OC": 12},
    "odd": {"B": 3, "C": 5, "L": 53, "OC": 14},
    "perf": {"B": 16, "C": 128, "L": 4096, "OC": 256},
}
INPUTS = {"x": "float32[B, C, L]"}
PARAMETERS = {"weight": "float32[OC, C, 5] weight_out_in", "bias": "float32[OC]"}
OUTPUTS = {"y": "float32[B, OC, L]"}
TOLERANCE = "F2"

KERNEL = 5
PADDING = 2


class Model(nn.Module):
    def __init__(self, C: int, OC: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(OC, C, KERNEL))
        self.bias = nn.Parameter(torch.empty(OC))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv1d(x, self.weight, self.bias, padding=PADDING)
