"""Linear layer with bias, then LayerNorm over its output features, in bfloat16."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 96},
    "odd": {"M": 51, "K": 183, "N": 245},
    "perf": {"M": 4096, "K": 1024, "N": 1024},
}
INPUTS = {"x": "bfloat16[M, K]"}
PARAMETERS = {
    "weight": "bfloat16[K, N] weight",
    "bias": "bfloat16[N]",
    "gain": "bfloat16[N] gain",
    "shift": "bfloat16[N] bias",
}
OUTPUTS = {"y": "bfloat16[M, N]"}
TOLERANCE = "B2"


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(K, N, dtype=torch.bfloat16))
        self.bias = nn.Parameter(torch.empty(N, dtype=torch.bfloat16))
        self.gain = nn.Parameter(torch.empty(N, dtype=torch.bfloat16))
        self.shift = nn.Parameter(torch.empty(N, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = x @ self.weight + self.bias
        return F.layer_norm(hidden, hidden.shape[-1:], self.gain, self.shift, eps=1e-5)
