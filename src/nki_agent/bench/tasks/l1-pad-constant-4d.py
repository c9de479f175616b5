"""A border of a constant around each image, of another width on each side."""

import torch
from torch import nn
from torch.nn import functional as F

SHAPES = {
    "dev": {"B": 2, "C": 8, "H": 14, "W": 14},
    "odd": {"B": 3, "C": 5, "H": 11, "W": 17},
    "perf": {"B": 16, "C": 64, "H": 112, "W": 112},
}
INPUTS = {"x": "float32[B, C, H, W]"}
OUTPUTS = {"y": "float32[B, C, H + 3, W + 3]"}
TOLERANCE = "EX"

LEFT, RIGHT, TOP, BOTTOM = 1, 2, 2, 1
FILL = 0.5


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.pad(x, (LEFT, RIGHT, TOP, BOTTOM), value=FILL)
