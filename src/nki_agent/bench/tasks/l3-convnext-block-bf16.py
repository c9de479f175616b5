"""A ConvNeXt block in bfloat16: a 7x7 convolution per channel, then a GELU MLP on each pixel.

The MLP follows a layer norm over the channels; each channel of the result is scaled and added to
the input. B images of C channels and H x W pixels.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "C": 12, "H": 12, "W": 12},
    "odd": {"B": 3, "C": 13, "H": 7, "W": 9},
    "perf": {"B": 4, "C": 96, "H": 56, "W": 56},
}
INPUTS = {"x": "bfloat16[B, C, H, W]"}
PARAMETERS = {
    "depthwise_weight": "bfloat16[C, 1, 7, 7] weight_out_in",
    "depthwise_bias": "bfloat16[C] bias",
    "norm_gain": "bfloat16[C] gain",
    "norm_bias": "bfloat16[C] bias",
    "up_weight": "bfloat16[C, 4 * C] weight",
    "up_bias": "bfloat16[4 * C] bias",
    "down_weight": "bfloat16[4 * C, C] weight",
    "down_bias": "bfloat16[C] bias",
    "layer_scale": "bfloat16[C] gain",
}
OUTPUTS = {"y": "bfloat16[B, C, H, W]"}
TOLERANCE = "B3"


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.bfloat16))


class Model(nn.Module):
    def __init__(self, C: int) -> None:
        super().__init__()
        self.num_channels = C
        self.depthwise_weight = _parameter(C, 1, 7, 7)
        self.depthwise_bias = _parameter(C)
        self.norm_gain = _parameter(C)
        self.norm_bias = _parameter(C)
        self.up_weight = _parameter(C, 4 * C)
        self.up_bias = _parameter(4 * C)
        self.down_weight = _parameter(4 * C, C)
        self.down_bias = _parameter(C)
        self.layer_scale = _parameter(C)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.conv2d(
            x, self.depthwise_weight, self.depthwise_bias, padding=3, groups=self.num_channels
        )
        pixels = hidden.permute(0, 2, 3, 1)
        pixels = F.layer_norm(pixels, pixels.shape[-1:], self.norm_gain, self.norm_bias)
        pixels = F.gelu(pixels @ self.up_weight + self.up_bias)
        pixels = (pixels @ self.down_weight + self.down_bias) * self.layer_scale
        return x + pixels.permute(0, 3, 1, 2)
