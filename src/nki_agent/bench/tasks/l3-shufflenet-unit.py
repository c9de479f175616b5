"""A ShuffleNet unit: grouped 1x1 convolutions around a channel shuffle and a 3x3 one per channel.

The channels inside are a quarter of the C outside. B images of H x W pixels, G groups.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "C": 24, "G": 3, "H": 10, "W": 10},
    "odd": {"B": 3, "C": 40, "G": 5, "H": 7, "W": 9},
    "perf": {"B": 32, "C": 240, "G": 3, "H": 28, "W": 28},
}
INPUTS = {"x": "float32[B, C, H, W]"}
PARAMETERS = {
    "reduce_weight": "float32[C // 4, C // G, 1, 1] weight_out_in",
    "depthwise_weight": "float32[C // 4, 1, 3, 3] weight_out_in",
    "expand_weight": "float32[C, C // 4 // G, 1, 1] weight_out_in",
}
OUTPUTS = {"y": "float32[B, C, H, W]"}
TOLERANCE = "F3"


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


def _shuffle_channels(x: torch.Tensor, num_groups: int) -> torch.Tensor:
    """Deal the channels of each group out to all groups."""
    return x.unflatten(1, (num_groups, -1)).transpose(1, 2).flatten(1, 2)


class Model(nn.Module):
    def __init__(self, C: int, G: int) -> None:
        super().__init__()
        self.num_groups = G
        self.num_hidden = C // 4
        self.reduce_weight = _parameter(C // 4, C // G, 1, 1)
        self.depthwise_weight = _parameter(C // 4, 1, 3, 3)
        self.expand_weight = _parameter(C, C // 4 // G, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(F.conv2d(x, self.reduce_weight, groups=self.num_groups))
        hidden = _shuffle_channels(hidden, self.num_groups)
        hidden = F.conv2d(hidden, self.depthwise_weight, padding=1, groups=self.num_hidden)
        return torch.relu(x + F.conv2d(hidden, self.expand_weight, groups=self.num_groups))
