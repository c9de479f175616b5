"""Batch normalisation of a batch of images by its own statistics, as in training.

Mean and biased variance of each channel are outputs too.
"""

import torch
from torch import nn
from torch.nn import functional as F

SHAPES = {
    "dev": {"B": 4, "C": 8, "H": 14, "W": 14},
    "odd": {"B": 3, "C": 5, "H": 11, "W": 17},
    "perf": {"B": 32, "C": 128, "H": 56, "W": 56},
}
INPUTS = {"x": "float32[B, C, H, W]"}
PARAMETERS = {"gain": "float32[C] gain", "bias": "float32[C] bias"}
OUTPUTS = {"y": "float32[B, C, H, W]", "mean": "float32[C]", "variance": "float32[C]"}
TOLERANCE = "F2"

EPSILON = 1e-5


class Model(nn.Module):
    def __init__(self, C: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.empty(C))
        self.bias = nn.Parameter(torch.empty(C))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        variance, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
        y = F.batch_norm(x, mean, variance, self.gain, self.bias, eps=EPSILON)
        return y, mean, variance
