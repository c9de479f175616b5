"""Residual addition, RMSNorm, and one projection to queries, keys and values, in bfloat16.

Queries have Q features, keys and values V each. The sum goes on as the new residual stream.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 192, "Q": 128, "V": 64},
    "odd": {"M": 73, "K": 150, "Q": 135, "V": 45},
    "perf": {"M": 2048, "K": 2048, "Q": 2048, "V": 512},
}
INPUTS = {"x": "bfloat16[M, K]", "residual": "bfloat16[M, K]"}
PARAMETERS = {"gain": "bfloat16[K] gain", "weight": "bfloat16[K, Q + 2 * V] weight"}
OUTPUTS = {
    "h": "bfloat16[M, K]",
    "q": "bfloat16[M, Q]",
    "k": "bfloat16[M, V]",
    "v": "bfloat16[M, V]",
}
TOLERANCE = "B2"
EPS = 1e-6


class Model(nn.Module):
    def __init__(self, K: int, Q: int, V: int) -> None:
        super().__init__()
        self.widths = (Q, V, V)
        self.gain = nn.Parameter(torch.empty(K, dtype=torch.bfloat16))
        self.weight = nn.Parameter(torch.empty(K, Q + 2 * V, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = x + residual
        scale = torch.rsqrt(h.square().mean(-1, keepdim=True) + EPS)
        q, k, v = ((h * scale * self.gain) @ self.weight).split(self.widths, dim=-1)
        return h, q, k, v
