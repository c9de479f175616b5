"""RMSNorm over the features of each row, then a linear layer without bias, in bfloat16."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 300},
    "odd": {"M": 67, "K": 150, "N": 131},
    "perf": {"M": 4096, "K": 2048, "N": 2048},
}
INPUTS = {"x": "bfloat16[M, K]"}
PARAMETERS = {"gain": "bfloat16[K] gain", "weight": "bfloat16[K, N] weight"}
OUTPUTS = {"y": "bfloat16[M, N]"}
TOLERANCE = "B2"


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.empty(K, dtype=torch.bfloat16))
        self.weight = nn.Parameter(torch.empty(K, N, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)
        return (x * scale * self.gain) @ self.weight
