"""Each column of a matrix multiplied by its own learned gain, in bfloat16."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "N": 300},
    "odd": {"M": 67, "N": 411},
    "perf": {"M": 4096, "N": 4096},
}
INPUTS = {"x": "bfloat16[M, N]"}
PARAMETERS = {"gain": "bfloat16[N]"}
OUTPUTS = {"y": "bfloat16[M, N]"}
TOLERANCE = "B1"


class Model(nn.Module):
    def __init__(self, N: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.empty(N, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gain
