"""Each key head repeated for the query heads that share it (grouped attention), in bfloat16."""

import torch
from torch import nn

SHAPES = {
    "dev": {"B": 2, "H": 2, "S": 65, "D": 32},
    "odd": {"B": 3, "H": 5, "S": 37, "D": 24},
    "perf": {"B": 2, "H": 8, "S": 2048, "D": 128},
}
INPUTS = {"key": "bfloat16[B, H, S, D]"}
OUTPUTS = {"y": "bfloat16[B, 4 * H, S, D]"}
TOLERANCE = "EX"

QUERY_HEADS_PER_KEY_HEAD = 4


class Model(nn.Module):
    def forward(self, key: torch.Tensor) -> torch.Tensor:
        return key.repeat_interleave(QUERY_HEADS_PER_KEY_HEAD, dim=1)
