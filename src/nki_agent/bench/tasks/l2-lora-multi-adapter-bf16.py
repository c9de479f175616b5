"""Linear layer with E LoRA adapters in bfloat16: each row of x names the adapter that is added."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 64, "K": 96, "N": 80, "R": 8, "E": 3},
    "odd": {"M": 39, "K": 75, "N": 131, "R": 6, "E": 5},
    "perf": {"M": 1024, "K": 2048, "N": 2048, "R": 16, "E": 8},
}
INPUTS = {"x": "bfloat16[M, K]", "adapter": "int32[M] index(E)"}
PARAMETERS = {
    "weight": "bfloat16[K, N] weight",
    "down": "bfloat16[E, K, R] weight",
    "up": "bfloat16[E, R, N] weight",
}
OUTPUTS = {"y": "bfloat16[M, N]"}
TOLERANCE = "B2"


class Model(nn.Module):
    def __init__(self, K: int, N: int, R: int, E: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(K, N, dtype=torch.bfloat16))
        self.down = nn.Parameter(torch.empty(E, K, R, dtype=torch.bfloat16))
        self.up = nn.Parameter(torch.empty(E, R, N, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor, adapter: torch.Tensor) -> torch.Tensor:
        chosen = adapter.long()
        low_rank = x[:, None] @ self.down[chosen]
        adapted = low_rank @ self.up[chosen]
        return x @ self.weight + adapted.squeeze(1)
