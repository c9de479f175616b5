"""A residual block of a diffusion U-Net: two 3x3 convolutions, a time embedding between them.

Each convolution follows a group norm and SiLU; a 1x1 convolution takes the input to N channels.
B images of C channels and H x W pixels, D features of the time embedding.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "C": 16, "H": 8, "W": 8, "N": 32, "D": 24},
    "odd": {"B": 3, "C": 24, "H": 7, "W": 9, "N": 40, "D": 29},
    "perf": {"B": 2, "C": 128, "H": 32, "W": 32, "N": 256, "D": 512},
}
INPUTS = {
    "x": "float32[B, C, H, W]",
    "time": "float32[B, D]",
}
PARAMETERS = {
    "norm1_gain": "float32[C] gain",
    "norm1_bias": "float32[C] bias",
    "conv1_weight": "float32[N, C, 3, 3] weight_out_in",
    "time_weight": "float32[D, N] weight",
    "norm2_gain": "float32[N] gain",
    "norm2_bias": "float32[N] bias",
    "conv2_weight": "float32[N, N, 3, 3] weight_out_in",
    "skip_weight": "float32[N, C, 1, 1] weight_out_in",
}
OUTPUTS = {"y": "float32[B, N, H, W]"}
TOLERANCE = "F3"
NUM_GROUPS = 8


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, C: int, N: int, D: int) -> None:
        super().__init__()
        self.norm1_gain = _parameter(C)
        self.norm1_bias = _parameter(C)
        self.conv1_weight = _parameter(N, C, 3, 3)
        self.time_weight = _parameter(D, N)
        self.norm2_gain = _parameter(N)
        self.norm2_bias = _parameter(N)
        self.conv2_weight = _parameter(N, N, 3, 3)
        self.skip_weight = _parameter(N, C, 1, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        hidden = F.silu(F.group_norm(x, NUM_GROUPS, self.norm1_gain, self.norm1_bias))
        hidden = F.conv2d(hidden, self.conv1_weight, padding=1)
        hidden = hidden + (F.silu(time) @ self.time_weight)[:, :, None, None]
        hidden = F.silu(F.group_norm(hidden, NUM_GROUPS, self.norm2_gain, self.norm2_bias))
        return F.conv2d(x, self.skip_weight) + F.conv2d(hidden, self.conv2_weight, padding=1)
