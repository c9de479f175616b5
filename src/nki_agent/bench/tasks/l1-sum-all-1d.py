"""Sum of all elements of a long vector, as a vector of one."""

import torch
from torch import nn

SHAPES = {"dev": {"N": 5000}, "odd": {"N": 4099}, "perf": {"N": 8388608}}
INPUTS = {"x": "float32[N]"}
OUTPUTS = {"y": "float32[1]"}
TOLERANCE = "F2"


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(dim=0, keepdim=True)
