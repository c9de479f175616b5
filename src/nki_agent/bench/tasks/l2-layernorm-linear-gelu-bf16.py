"""LayerNorm of each row, a linear layer with bias, then exact GELU, in bfloat16."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 300},
    "odd": {"M": 59, "K": 177, "N": 253},
    "perf": {"M": 2048, "K": 1024, "N": 4096},
}
INPUTS = {"x": "bfloat16[M, K]"}
PARAMETERS = {
    "gain": "bfloat16[K] gain",
    "shift": "bfloat16[K] bias",
    "weight": "bfloat16[K, N] weight",
    "bias": "bfloat16[N]",
}
OUTPUTS = {"y": "bfloat16[M, N]"}
TOLERANCE = "B2"


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.empty(K, dtype=torch.bfloat16))
        self.shift = nn.Parameter(torch.empty(K, dtype=torch.bfloat16))
        self.weight = nn.Parameter(torch.empty(K, N, dtype=torch.bfloat16))
        self.bias = nn.Parameter(torch.empty(N, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = F.layer_norm(x, x.shape[-1:], self.gain, self.shift, eps=1e-5)
        return F.gelu(normed @ self.weight + self.bias)
