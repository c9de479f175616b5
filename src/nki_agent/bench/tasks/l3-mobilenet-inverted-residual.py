"""MobileNetV2's inverted residual: a 1x1 convolution up, a 3x3 one per channel, a 1x1 one down.

Batch norms are folded into the convolutions; the first two end in ReLU6. B images of C channels and
H x W pixels, K channels inside.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "C": 8, "K": 24, "H": 12, "W": 12},
    "odd": {"B": 3, "C": 10, "K": 37, "H": 7, "W": 9},
    "perf": {"B": 32, "C": 32, "K": 192, "H": 56, "W": 56},
}
INPUTS = {"x": "float32[B, C, H, W]"}
PARAMETERS = {
    "expand_weight": "float32[K, C, 1, 1] weight_out_in",
    "expand_bias": "float32[K] bias",
    "depthwise_weight": "float32[K, 1, 3, 3] weight_out_in",
    "depthwise_bias": "float32[K] bias",
    "project_weight": "float32[C, K, 1, 1] weight_out_in",
    "project_bias": "float32[C] bias",
}
OUTPUTS = {"y": "float32[B, C, H, W]"}
TOLERANCE = "F3"


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, C: int, K: int) -> None:
        super().__init__()
        self.num_hidden = K
        self.expand_weight = _parameter(K, C, 1, 1)
        self.expand_bias = _parameter(K)
        self.depthwise_weight = _parameter(K, 1, 3, 3)
        self.depthwise_bias = _parameter(K)
        self.project_weight = _parameter(C, K, 1, 1)
        self.project_bias = _parameter(C)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.relu6(F.conv2d(x, self.expand_weight, self.expand_bias))
        hidden = F.conv2d(
            hidden, self.depthwise_weight, self.depthwise_bias, padding=1, groups=self.num_hidden
        )
        return x + F.conv2d(F.relu6(hidden), self.project_weight, self.project_bias)
