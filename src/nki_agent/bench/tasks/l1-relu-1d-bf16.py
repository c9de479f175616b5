"""ReLU of a long vector in bfloat16."""

import torch
from torch import nn

SHAPES = {"dev": {"N": 5000}, "odd": {"N": 4099}, "perf": {"N": 16777216}}
INPUTS = {"x": "bfloat16[N]"}
OUTPUTS = {"y": "bfloat16[N]"}
TOLERANCE = "EX"


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)
