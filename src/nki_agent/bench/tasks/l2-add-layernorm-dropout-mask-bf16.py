"""Dropout with a given mask, residual addition, then LayerNorm, in bfloat16.

What the mask keeps is divided by the share of 0.8 that dropout keeps.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"M": 130, "N": 300},
    "odd": {"M": 85, "N": 411},
    "perf": {"M": 4096, "N": 2048},
}
INPUTS = {
    "x": "bfloat16[M, N]",
    "residual": "bfloat16[M, N]",
    "keep": "uint8[M, N] mask",
}
PARAMETERS = {"gain": "bfloat16[N] gain", "shift": "bfloat16[N] bias"}
OUTPUTS = {"y": "bfloat16[M, N]"}
TOLERANCE = "B1"
KEEP_SHARE = 0.8


class Model(nn.Module):
    def __init__(self, N: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.empty(N, dtype=torch.bfloat16))
        self.shift = nn.Parameter(torch.empty(N, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor, residual: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        # In float32 inside, rounded once at the end.
        dropped = torch.where(keep > 0, x.float() / KEEP_SHARE, 0.0)
        hidden = residual.float() + dropped
        gain, shift = self.gain.float(), self.shift.float()
        normed = F.layer_norm(hidden, hidden.shape[-1:], gain, shift, eps=1e-5)
        return normed.to(torch.bfloat16)
