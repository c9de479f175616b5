"""One AdamW step in float32; the moments decay by 0.9 and 0.999.

`hyper` holds learning rate, weight decay, and the factors that correct the bias of both moments.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "N": 300},
    "odd": {"M": 67, "N": 403},
    "perf": {"M": 4096, "N": 2048},
}
INPUTS = {
    "weight": "float32[M, N]",
    "grad": "float32[M, N]",
    "first": "float32[M, N] small",
    "second": "float32[M, N] positive",
    "hyper": "float32[4] adam",
}
OUTPUTS = {
    "new_weight": "float32[M, N]",
    "new_first": "float32[M, N]",
    "new_second": "float32[M, N]",
}
TOLERANCE = "F2"
BETA1, BETA2 = 0.9, 0.999
EPS = 1e-8


class Model(nn.Module):
    def forward(
        self,
        weight: torch.Tensor,
        grad: torch.Tensor,
        first: torch.Tensor,
        second: torch.Tensor,
        hyper: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        learning_rate, weight_decay, correction1, correction2 = hyper.unbind()
        new_first = BETA1 * first + (1 - BETA1) * grad
        new_second = BETA2 * second + (1 - BETA2) * grad.square()
        step = new_first * correction1 / (torch.sqrt(new_second * correction2) + EPS)
        decayed = weight * (1 - learning_rate * weight_decay)
        return decayed - learning_rate * step, new_first, new_second
