"""3 by 3 convolution with bias that keeps the image's size, then ReLU, in bfloat16."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "C": 8, "H": 14, "W": 14, "OUT": 12},
    "odd": {"B": 3, "C": 7, "H": 13, "W": 19, "OUT": 17},
    "perf": {"B": 32, "C": 64, "H": 56, "W": 56, "OUT": 64},
}
INPUTS = {"x": "bfloat16[B, C, H, W]"}
PARAMETERS = {"weight": "bfloat16[OUT, C, 3, 3] weight_out_in", "bias": "bfloat16[OUT]"}
OUTPUTS = {"y": "bfloat16[B, OUT, H, W]"}
TOLERANCE = "B2"


class Model(nn.Module):
    def __init__(self, C: int, OUT: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(OUT, C, 3, 3, dtype=torch.bfloat16))
        self.bias = nn.Parameter(torch.empty(OUT, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(F.conv2d(x, self.weight, self.bias, padding=1))
