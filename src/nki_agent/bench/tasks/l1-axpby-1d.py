"""Linear combination of two long vectors whose coefficients are known only at run time."""

import torch
from torch import nn

SHAPES = {"dev": {"N": 5000}, "odd": {"N": 4099}, "perf": {"N": 8388608}}
INPUTS = {
    "x": "float32[N]",
    "other": "float32[N]",
    "alpha": "float32[1]",
    "beta": "float32[1]",
}
OUTPUTS = {"y": "float32[N]"}
TOLERANCE = "F1"


class Model(nn.Module):
    def forward(
        self, x: torch.Tensor, other: torch.Tensor, alpha: torch.Tensor, beta: torch.Tensor
    ) -> torch.Tensor:
        return alpha * x + beta * other
