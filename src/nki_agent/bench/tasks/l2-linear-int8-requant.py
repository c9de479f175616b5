"""Linear layer from int8 to int8: exact sums of products, then a float32 scale per output feature.

The result is rounded to the nearest code, halves to even, and kept within -127 and 127.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 96},
    "odd": {"M": 83, "K": 173, "N": 157},
    "perf": {"M": 2048, "K": 1024, "N": 1024},
}
INPUTS = {"x": "int8[M, K] integers(-127, 127)"}
PARAMETERS = {
    "weight": "int8[K, N] integers(-127, 127)",
    "scale": "float32[N] requantise(K)",
}
OUTPUTS = {"y": "int8[M, N]"}
TOLERANCE = "Q1"
CODE_MAX = 127


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.empty(K, N, dtype=torch.int8))
        self.scale = nn.Parameter(torch.empty(N))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # At these depths float32 holds every sum of products exactly.
        total = x.float() @ self.weight.float()
        codes = torch.round(total * self.scale).clamp(-CODE_MAX, CODE_MAX)
        return codes.to(torch.int8)
