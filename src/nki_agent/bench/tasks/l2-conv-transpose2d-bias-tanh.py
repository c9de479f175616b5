"""4 by 4 transposed convolution with bias that doubles the image's size, then tanh, in float32."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "C": 8, "H": 7, "W": 7, "OUT": 6},
    "odd": {"B": 3, "C": 5, "H": 9, "W": 13, "OUT": 11},
    "perf": {"B": 16, "C": 64, "H": 56, "W": 56, "OUT": 64},
}
INPUTS = {"x": "float32[B, C, H, W]"}
PARAMETERS = {"weight": "float32[C, OUT, 4, 4] weight_transposed", "bias": "float32[OUT]"}
OUTPUTS = {"y": "float32[B, OUT, 2 * H, 2 * W]"}
TOLERANCE = "F2"


class Model(nn.Module):
    def __init__(self, C: int, OUT: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(C, OUT, 4, 4))
        self.bias = nn.Parameter(torch.empty(OUT))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.conv_transpose2d(x, self.weight, self.bias, stride=2, padding=1)
        return torch.tanh(hidden)
