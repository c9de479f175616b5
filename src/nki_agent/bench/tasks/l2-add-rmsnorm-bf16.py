"""Residual addition, then RMSNorm over each row, in bfloat16; gives the sum and its norm."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "N": 300},
    "odd": {"M": 79, "N": 397},
    "perf": {"M": 8192, "N": 4096},
}
INPUTS = {"x": "bfloat16[M, N]", "residual": "bfloat16[M, N]"}
PARAMETERS = {"gain": "bfloat16[N] gain"}
OUTPUTS = {"h": "bfloat16[M, N]", "y": "bfloat16[M, N]"}
TOLERANCE = "B1"
EPS = 1e-6


class Model(nn.Module):
    def __init__(self, N: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.empty(N, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        # The norm takes the sum in float32, as it was before it is rounded for the output.
        h = x.float() + residual.float()
        scale = torch.rsqrt(h.square().mean(-1, keepdim=True) + EPS)
        y = h * scale * self.gain.float()
        return h.to(torch.bfloat16), y.to(torch.bfloat16)
