"""Backward pass of RMSNorm over each row, in float32: gradients of input and gain."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "N": 300},
    "odd": {"M": 87, "N": 365},
    "perf": {"M": 4096, "N": 2048},
}
INPUTS = {"grad_y": "float32[M, N]", "x": "float32[M, N]"}
PARAMETERS = {"gain": "float32[N] gain"}
OUTPUTS = {"grad_x": "float32[M, N]", "grad_gain": "float32[N]"}
TOLERANCE = "F3"
EPS = 1e-6


class Model(nn.Module):
    def __init__(self, N: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.empty(N))

    def forward(self, grad_y: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scale = torch.rsqrt(x.square().mean(dim=1, keepdim=True) + EPS)
        normed = x * scale
        grad_normed = grad_y * self.gain
        along_normed = (grad_normed * normed).mean(dim=1, keepdim=True)
        grad_x = scale * (grad_normed - normed * along_normed)
        return grad_x, (grad_y * normed).sum(dim=0)
