"""Linear layer with bias, GroupNorm of its outputs in 16 groups, then hardtanh, in float32."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 64},
    "odd": {"M": 57, "K": 261, "N": 176},
    "perf": {"M": 2048, "K": 2048, "N": 2048},
}
INPUTS = {"x": "float32[M, K]"}
PARAMETERS = {
    "weight": "float32[K, N] weight",
    "bias": "float32[N]",
    "gain": "float32[N] gain",
    "shift": "float32[N] bias",
}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "F2"
NUM_GROUPS = 16


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(K, N))
        self.bias = nn.Parameter(torch.empty(N))
        self.gain = nn.Parameter(torch.empty(N))
        self.shift = nn.Parameter(torch.empty(N))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = x @ self.weight + self.bias
        normed = F.group_norm(hidden, NUM_GROUPS, self.gain, self.shift, eps=1e-5)
        return F.hardtanh(normed)
