"""Linear layer with int8 weights and a float32 scale for each output feature; x is bfloat16."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 64, "K": 200, "N": 300},
    "odd": {"M": 37, "K": 171, "N": 259},
    "perf": {"M": 256, "K": 4096, "N": 4096},
}
INPUTS = {"x": "bfloat16[M, K]"}
PARAMETERS = {"weight": "int8[K, N] integers(-127, 127)", "scale": "float32[N] scale"}
OUTPUTS = {"y": "bfloat16[M, N]"}
TOLERANCE = "B2"


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.empty(K, N, dtype=torch.int8))
        self.scale = nn.Parameter(torch.empty(N))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        product = x @ self.weight.to(torch.bfloat16)
        return (product * self.scale).to(torch.bfloat16)
