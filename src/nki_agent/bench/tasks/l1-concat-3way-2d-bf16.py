"""Three matrices of different widths side by side in one, in bfloat16."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "N": 96, "K": 33},
    "odd": {"M": 67, "N": 83, "K": 51},
    "perf": {"M": 4096, "N": 2048, "K": 1000},
}
INPUTS = {"first": "bfloat16[M, N]", "second": "bfloat16[M, K]", "third": "bfloat16[M, N]"}
OUTPUTS = {"y": "bfloat16[M, N + K + N]"}
TOLERANCE = "EX"


class Model(nn.Module):
    def forward(
        self, first: torch.Tensor, second: torch.Tensor, third: torch.Tensor
    ) -> torch.Tensor:
        return torch.cat([first, second, third], dim=1)
