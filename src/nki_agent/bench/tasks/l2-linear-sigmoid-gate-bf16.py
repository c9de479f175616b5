"""Linear layer whose output is gated by the sigmoid of a second linear layer, in bfloat16."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 96},
    "odd": {"M": 61, "K": 275, "N": 139},
    "perf": {"M": 2048, "K": 2048, "N": 1024},
}
INPUTS = {"x": "bfloat16[M, K]"}
PARAMETERS = {"weight": "bfloat16[K, N] weight", "gate_weight": "bfloat16[K, N] weight"}
OUTPUTS = {"y": "bfloat16[M, N]"}
TOLERANCE = "B2"


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(K, N, dtype=torch.bfloat16))
        self.gate_weight = nn.Parameter(torch.empty(K, N, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = torch.sigmoid(x @ self.gate_weight)
        return (x @ self.weight) * gate
