"""Vision transformer's patch embedding in bfloat16.

Each patch of 16 by 16 pixels is projected to D features, and a learned embedding of its position is
added.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "H": 32, "W": 32, "D": 48},
    "odd": {"B": 5, "H": 64, "W": 80, "D": 77},
    "perf": {"B": 64, "H": 224, "W": 224, "D": 768},
}
INPUTS = {"x": "bfloat16[B, 3, H, W]"}
PARAMETERS = {
    "weight": "bfloat16[D, 3, 16, 16] weight_out_in",
    "bias": "bfloat16[D]",
    "positions": "bfloat16[H // 16 * (W // 16), D]",
}
OUTPUTS = {"y": "bfloat16[B, H // 16 * (W // 16), D]"}
TOLERANCE = "B2"
NUM_CHANNELS = 3
PATCH = 16


class Model(nn.Module):
    def __init__(self, H: int, W: int, D: int) -> None:
        super().__init__()
        num_patches = (H // PATCH) * (W // PATCH)
        self.weight = nn.Parameter(torch.empty(D, NUM_CHANNELS, PATCH, PATCH, dtype=torch.bfloat16))
        self.bias = nn.Parameter(torch.empty(D, dtype=torch.bfloat16))
        self.positions = nn.Parameter(torch.empty(num_patches, D, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        patches = F.conv2d(x, self.weight, self.bias, stride=PATCH)
        return patches.flatten(2).transpose(1, 2) + self.positions
