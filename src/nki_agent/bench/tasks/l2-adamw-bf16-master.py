"""One AdamW step without bias correction on a float32 weight, of which it gives a bfloat16 copy.

Gradient and first moment are bfloat16, the arithmetic is float32. The moments decay by 0.9 and
0.95, and the weight decay is 0.1.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "N": 300},
    "odd": {"M": 59, "N": 385},
    "perf": {"M": 4096, "N": 1024},
}
INPUTS = {
    "weight": "float32[M, N]",
    "grad": "bfloat16[M, N]",
    "first": "bfloat16[M, N] small",
    "second": "float32[M, N] positive",
    "learning_rate": "float32[1] learning_rate",
}
OUTPUTS = {
    "new_weight": "float32[M, N]",
    "new_copy": "bfloat16[M, N]",
    "new_first": "bfloat16[M, N]",
    "new_second": "float32[M, N]",
}
TOLERANCE = "BM"
BETA1, BETA2 = 0.9, 0.95
EPS = 1e-8
WEIGHT_DECAY = 0.1


class Model(nn.Module):
    def forward(
        self,
        weight: torch.Tensor,
        grad: torch.Tensor,
        first: torch.Tensor,
        second: torch.Tensor,
        learning_rate: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        grad, first = grad.float(), first.float()
        new_first = BETA1 * first + (1 - BETA1) * grad
        new_second = BETA2 * second + (1 - BETA2) * grad.square()
        step = new_first / (torch.sqrt(new_second) + EPS) + WEIGHT_DECAY * weight
        new_weight = weight - learning_rate * step
        return new_weight, new_weight.to(torch.bfloat16), new_first.to(torch.bfloat16), new_second
