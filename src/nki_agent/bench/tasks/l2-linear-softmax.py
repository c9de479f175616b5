"""Linear layer without bias, then softmax over each row of its output, in float32."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 300},
    "odd": {"M": 77, "K": 145, "N": 389},
    "perf": {"M": 2048, "K": 1024, "N": 4096},
}
INPUTS = {"x": "float32[M, K]"}
PARAMETERS = {"weight": "float32[K, N] weight"}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "F2"


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(K, N))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.softmax(x @ self.weight, dim=-1)
