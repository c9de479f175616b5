"""3 by 3 by 3 convolution with bias, leaky ReLU, then average pooling by 2, in float32."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "C": 3, "D": 6, "H": 8, "W": 8, "OUT": 6},
    "odd": {"B": 2, "C": 5, "D": 7, "H": 9, "W": 11, "OUT": 4},
    "perf": {"B": 8, "C": 8, "D": 16, "H": 56, "W": 56, "OUT": 32},
}
INPUTS = {"x": "float32[B, C, D, H, W]"}
PARAMETERS = {"weight": "float32[OUT, C, 3, 3, 3] weight_out_in", "bias": "float32[OUT]"}
OUTPUTS = {"y": "float32[B, OUT, D // 2, H // 2, W // 2]"}
TOLERANCE = "F2"
SLOPE = 0.1


class Model(nn.Module):
    def __init__(self, C: int, OUT: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(OUT, C, 3, 3, 3))
        self.bias = nn.Parameter(torch.empty(OUT))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.leaky_relu(F.conv3d(x, self.weight, self.bias, padding=1), SLOPE)
        return F.avg_pool3d(hidden, kernel_size=2)
