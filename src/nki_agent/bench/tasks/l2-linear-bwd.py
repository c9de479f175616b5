"""Backward pass of a linear layer in float32: gradients of input, weight and bias."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 96},
    "odd": {"M": 155, "K": 107, "N": 233},
    "perf": {"M": 2048, "K": 1024, "N": 1024},
}
INPUTS = {"grad_y": "float32[M, N]", "x": "float32[M, K]"}
PARAMETERS = {"weight": "float32[K, N] weight"}
OUTPUTS = {
    "grad_x": "float32[M, K]",
    "grad_weight": "float32[K, N]",
    "grad_bias": "float32[N]",
}
TOLERANCE = "F2"


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(K, N))

    def forward(self, grad_y: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return grad_y @ self.weight.T, x.T @ grad_y, grad_y.sum(dim=0)
