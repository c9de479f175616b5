"""3 by 3 convolution without bias, BatchNorm with running statistics, then SiLU, in bfloat16."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "C": 8, "H": 14, "W": 14, "OUT": 12},
    "odd": {"B": 3, "C": 5, "H": 11, "W": 17, "OUT": 19},
    "perf": {"B": 8, "C": 64, "H": 56, "W": 56, "OUT": 128},
}
INPUTS = {"x": "bfloat16[B, C, H, W]"}
PARAMETERS = {
    "weight": "bfloat16[OUT, C, 3, 3] weight_out_in",
    "mean": "float32[OUT]",
    "variance": "float32[OUT] positive",
    "gain": "float32[OUT] gain",
    "shift": "float32[OUT] bias",
}
OUTPUTS = {"y": "bfloat16[B, OUT, H, W]"}
TOLERANCE = "B2"


class Model(nn.Module):
    def __init__(self, C: int, OUT: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(OUT, C, 3, 3, dtype=torch.bfloat16))
        self.mean = nn.Parameter(torch.empty(OUT))
        self.variance = nn.Parameter(torch.empty(OUT))
        self.gain = nn.Parameter(torch.empty(OUT))
        self.shift = nn.Parameter(torch.empty(OUT))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.conv2d(x, self.weight, padding=1).float()
        normed = F.batch_norm(hidden, self.mean, self.variance, self.gain, self.shift, eps=1e-5)
        return F.silu(normed).to(torch.bfloat16)
