"""A ResNet basic block at inference: two 3x3 convolutions with batch norm, ReLU and a shortcut.

B images of C channels and H x W pixels.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "C": 12, "H": 12, "W": 12},
    "odd": {"B": 3, "C": 10, "H": 7, "W": 9},
    "perf": {"B": 8, "C": 64, "H": 56, "W": 56},
}
INPUTS = {"x": "float32[B, C, H, W]"}
PARAMETERS = {
    "conv1_weight": "float32[C, C, 3, 3] weight_out_in",
    "norm1_mean": "float32[C]",
    "norm1_variance": "float32[C] variance",
    "norm1_gain": "float32[C] gain",
    "norm1_bias": "float32[C] bias",
    "conv2_weight": "float32[C, C, 3, 3] weight_out_in",
    "norm2_mean": "float32[C]",
    "norm2_variance": "float32[C] variance",
    "norm2_gain": "float32[C] gain",
    "norm2_bias": "float32[C] bias",
}
OUTPUTS = {"y": "float32[B, C, H, W]"}
TOLERANCE = "F3"


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, C: int) -> None:
        super().__init__()
        self.conv1_weight = _parameter(C, C, 3, 3)
        self.norm1_mean = _parameter(C)
        self.norm1_variance = _parameter(C)
        self.norm1_gain = _parameter(C)
        self.norm1_bias = _parameter(C)
        self.conv2_weight = _parameter(C, C, 3, 3)
        self.norm2_mean = _parameter(C)
        self.norm2_variance = _parameter(C)
        self.norm2_gain = _parameter(C)
        self.norm2_bias = _parameter(C)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.conv2d(x, self.conv1_weight, padding=1)
        hidden = F.batch_norm(
            hidden, self.norm1_mean, self.norm1_variance, self.norm1_gain, self.norm1_bias
        )
        hidden = F.conv2d(torch.relu(hidden), self.conv2_weight, padding=1)
        hidden = F.batch_norm(
            hidden, self.norm2_mean, self.norm2_variance, self.norm2_gain, self.norm2_bias
        )
        return torch.relu(hidden + x)
