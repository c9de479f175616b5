"""One step of SGD with Nesterov momentum of 0.9 on a long float32 vector."""

import torch
from torch import nn

SHAPES = {"dev": {"N": 5000}, "odd": {"N": 4099}, "perf": {"N": 8388608}}
INPUTS = {
    "weight": "float32[N]",
    "grad": "float32[N]",
    "momentum": "float32[N]",
    "learning_rate": "float32[1] learning_rate",
}
OUTPUTS = {"new_weight": "float32[N]", "new_momentum": "float32[N]"}
TOLERANCE = "F1"
MOMENTUM = 0.9


class Model(nn.Module):
    def forward(
        self,
        weight: torch.Tensor,
        grad: torch.Tensor,
        momentum: torch.Tensor,
        learning_rate: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        new_momentum = MOMENTUM * momentum + grad
        new_weight = weight - learning_rate * (grad + MOMENTUM * new_momentum)
        return new_weight, new_momentum
