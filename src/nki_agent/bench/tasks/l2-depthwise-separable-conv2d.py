"""3 by 3 depthwise convolution, 1 by 1 convolution with bias, then ReLU6, in float32."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "C": 8, "H": 14, "W": 14, "OUT": 12},
    "odd": {"B": 3, "C": 9, "H": 13, "W": 21, "OUT": 15},
    "perf": {"B": 16, "C": 128, "H": 56, "W": 56, "OUT": 128},
}
INPUTS = {"x": "float32[B, C, H, W]"}
PARAMETERS = {
    "depthwise": "float32[C, 1, 3, 3] weight_out_in",
    "pointwise": "float32[OUT, C, 1, 1] weight_out_in",
    "bias": "float32[OUT]",
}
OUTPUTS = {"y": "float32[B, OUT, H, W]"}
TOLERANCE = "F2"


class Model(nn.Module):
    def __init__(self, C: int, OUT: int) -> None:
        super().__init__()
        self.depthwise = nn.Parameter(torch.empty(C, 1, 3, 3))
        self.pointwise = nn.Parameter(torch.empty(OUT, C, 1, 1))
        self.bias = nn.Parameter(torch.empty(OUT))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        filtered = F.conv2d(x, self.depthwise, padding=1, groups=x.shape[1])
        return F.relu6(F.conv2d(filtered, self.pointwise, self.bias))
