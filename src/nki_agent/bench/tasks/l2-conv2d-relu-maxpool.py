"""5 by 5 convolution with bias, ReLU, then 2 by 2 max pooling, in float32."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "C": 3, "H": 16, "W": 16, "OUT": 12},
    "odd": {"B": 4, "C": 5, "H": 15, "W": 23, "OUT": 11},
    "perf": {"B": 8, "C": 3, "H": 112, "W": 112, "OUT": 64},
}
INPUTS = {"x": "float32[B, C, H, W]"}
PARAMETERS = {"weight": "float32[OUT, C, 5, 5] weight_out_in", "bias": "float32[OUT]"}
OUTPUTS = {"y": "float32[B, OUT, H // 2, W // 2]"}
TOLERANCE = "F2"


class Model(nn.Module):
    def __init__(self, C: int, OUT: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(OUT, C, 5, 5))
        self.bias = nn.Parameter(torch.empty(OUT))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(F.conv2d(x, self.weight, self.bias, padding=2))
        return F.max_pool2d(hidden, kernel_size=2)
