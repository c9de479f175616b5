"""A ResNet bottleneck in bfloat16: 1x1, 3x3 and 1x1 convolutions, ReLU and a shortcut.

Batch norms are folded into the convolutions. B images of C channels and H x W pixels, K channels
inside.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "C": 16, "K": 8, "H": 12, "W": 12},
    "odd": {"B": 3, "C": 21, "K": 10, "H": 7, "W": 9},
    "perf": {"B": 32, "C": 256, "K": 64, "H": 56, "W": 56},
}
INPUTS = {"x": "bfloat16[B, C, H, W]"}
PARAMETERS = {
    "reduce_weight": "bfloat16[K, C, 1, 1] weight_out_in",
    "reduce_bias": "bfloat16[K]",
    "conv_weight": "bfloat16[K, K, 3, 3] weight_out_in",
    "conv_bias": "bfloat16[K] bias",
    "expand_weight": "bfloat16[C, K, 1, 1] weight_out_in",
    "expand_bias": "bfloat16[C] bias",
}
OUTPUTS = {"y": "bfloat16[B, C, H, W]"}
TOLERANCE = "B3"


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.bfloat16))


class Model(nn.Module):
    def __init__(self, C: int, K: int) -> None:
        super().__init__()
        self.reduce_weight = _parameter(K, C, 1, 1)
        self.reduce_bias = _parameter(K)
        self.conv_weight = _parameter(K, K, 3, 3)
        self.conv_bias = _parameter(K)
        self.expand_weight = _parameter(C, K, 1, 1)
        self.expand_bias = _parameter(C)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(F.conv2d(x, self.reduce_weight, self.reduce_bias))
        hidden = torch.relu(F.conv2d(hidden, self.conv_weight, self.conv_bias, padding=1))
        return torch.relu(x + F.conv2d(hidden, self.expand_weight, self.expand_bias))
