"""Linear layer with one LoRA adapter of low rank R added at twice its strength, in bfloat16."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 300, "R": 8},
    "odd": {"M": 87, "K": 157, "N": 241, "R": 5},
    "perf": {"M": 2048, "K": 2048, "N": 2048, "R": 16},
}
INPUTS = {"x": "bfloat16[M, K]"}
PARAMETERS = {
    "weight": "bfloat16[K, N] weight",
    "down": "bfloat16[K, R] weight",
    "up": "bfloat16[R, N] weight",
}
OUTPUTS = {"y": "bfloat16[M, N]"}
TOLERANCE = "B2"
# The adapter may be added to the weight first, where it costs least.
MATMUL_FLOPS = "2 * M * K * N"
ADAPTER_SCALE = 2.0


class Model(nn.Module):
    def __init__(self, K: int, N: int, R: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(K, N, dtype=torch.bfloat16))
        self.down = nn.Parameter(torch.empty(K, R, dtype=torch.bfloat16))
        self.up = nn.Parameter(torch.empty(R, N, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        adapted = (x @ self.down) @ self.up
        return x @ self.weight + ADAPTER_SCALE * adapted
