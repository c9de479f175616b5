"""Linear layer added to a residual stream, then RMSNorm, in float32; gives both results."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 96},
    "odd": {"M": 89, "K": 135, "N": 211},
    "perf": {"M": 4096, "K": 2048, "N": 1024},
}
INPUTS = {"x": "float32[M, K]", "residual": "float32[M, N]"}
PARAMETERS = {"weight": "float32[K, N] weight", "gain": "float32[N] gain"}
OUTPUTS = {"y": "float32[M, N]", "h": "float32[M, N]"}
TOLERANCE = "F2"
EPS = 1e-6


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(K, N))
        self.gain = nn.Parameter(torch.empty(N))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = x @ self.weight + residual
        scale = torch.rsqrt(h.square().mean(-1, keepdim=True) + EPS)
        return h * scale * self.gain, h
