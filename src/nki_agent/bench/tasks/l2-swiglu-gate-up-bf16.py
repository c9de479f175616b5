"""SwiGLU in bfloat16: SiLU of the gate projection times the up projection."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 300},
    "odd": {"M": 83, "K": 163, "N": 271},
    "perf": {"M": 4096, "K": 2048, "N": 4096},
}
INPUTS = {"x": "bfloat16[M, K]"}
PARAMETERS = {"gate_weight": "bfloat16[K, N] weight", "up_weight": "bfloat16[K, N] weight"}
OUTPUTS = {"y": "bfloat16[M, N]"}
TOLERANCE = "B2"


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.gate_weight = nn.Parameter(torch.empty(K, N, dtype=torch.bfloat16))
        self.up_weight = nn.Parameter(torch.empty(K, N, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(x @ self.gate_weight) * (x @ self.up_weight)
