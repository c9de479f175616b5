"""Rotary position embedding of queries and keys in bfloat16, on the first R of D features.

Within those R features the two halves are rotated against each other.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"B": 1, "H": 3, "S": 65, "D": 48, "R": 16},
    "odd": {"B": 2, "H": 5, "S": 47, "D": 70, "R": 22},
    "perf": {"B": 1, "H": 16, "S": 2048, "D": 128, "R": 32},
}
INPUTS = {
    "query": "bfloat16[B, H, S, D]",
    "key": "bfloat16[B, H, S, D]",
    "cosine": "bfloat16[S, R // 2] cosine",
    "sine": "bfloat16[S, R // 2] sine",
}
OUTPUTS = {"rotated_query": "bfloat16[B, H, S, D]", "rotated_key": "bfloat16[B, H, S, D]"}
TOLERANCE = "B1"


def _rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    half = cosine.shape[-1]
    first, second, rest = x.split([half, half, x.shape[-1] - 2 * half], dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine, rest], dim=-1)


class Model(nn.Module):
    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        cosine: torch.Tensor,
        sine: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return _rotate(query, cosine, sine), _rotate(key, cosine, sine)
