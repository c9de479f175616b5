"""One step of the Lion optimiser in float32: the sign of an average sets the direction.

The direction averages with 0.9, the momentum with 0.99, and the weight decay is 0.1.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "N": 300},
    "odd": {"M": 71, "N": 419},
    "perf": {"M": 4096, "N": 2048},
}
INPUTS = {
    "weight": "float32[M, N]",
    "grad": "float32[M, N]",
    "momentum": "float32[M, N]",
    "learning_rate": "float32[1] learning_rate",
}
OUTPUTS = {"new_weight": "float32[M, N]", "new_momentum": "float32[M, N]"}
TOLERANCE = "F1"
BETA1, BETA2 = 0.9, 0.99
WEIGHT_DECAY = 0.1


class Model(nn.Module):
    def forward(
        self,
        weight: torch.Tensor,
        grad: torch.Tensor,
        momentum: torch.Tensor,
        learning_rate: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        direction = torch.sign(BETA1 * momentum + (1 - BETA1) * grad)
        decayed = weight * (1 - WEIGHT_DECAY * learning_rate)
        new_momentum = BETA2 * momentum + (1 - BETA2) * grad
        return decayed - learning_rate * direction, new_momentum
