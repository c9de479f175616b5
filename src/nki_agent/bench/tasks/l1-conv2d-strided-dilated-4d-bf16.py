"""Convolution over images with stride two and a dilated kernel of three by three, in bfloat16."""

import torch
from torch import nn
from torch.nn import functional as F

SHAPES = {
    "dev": {"B": 2, "C": 8, "H": 21, "W": 21, "OC": 12},
    "odd": {"B": 3, "C": 5, "H": 16, "W": 19, "OC": 14},
    "perf": {"B": 32, "C": 64, "H": 112, "W": 112, "OC": 128},
}
INPUTS = {"x": "bfloat16[B, C, H, W]"}
PARAMETERS = {"weight": "bfloat16[OC, C, 3, 3] weight_out_in"}
OUTPUTS = {"y": "bfloat16[B, OC, (H - 1) // 2 + 1, (W - 1) // 2 + 1]"}
TOLERANCE = "B1"

KERNEL = 3
STRIDE = 2
DILATION = 2
PADDING = 2


class Model(nn.Module):
    def __init__(self, C: int, OC: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(OC, C, KERNEL, KERNEL, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, self.weight, stride=STRIDE, padding=PADDING, dilation=DILATION)
