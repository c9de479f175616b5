"""Linear attention without a mask, in bfloat16: elu(x) + 1 takes the place of softmax."""

import torch
from torch import nn

SHAPES = {
    "dev": {"B": 2, "H": 3, "S": 65, "D": 32},
    "odd": {"B": 1, "H": 4, "S": 57, "D": 44},
    "perf": {"B": 2, "H": 8, "S": 2048, "D": 64},
}
INPUTS = {
    "query": "bfloat16[B, H, S, D]",
    "key": "bfloat16[B, H, S, D]",
    "value": "bfloat16[B, H, S, D]",
}
OUTPUTS = {"y": "bfloat16[B, H, S, D]"}
TOLERANCE = "B2"


def _features(x: torch.Tensor) -> torch.Tensor:
    """elu(x) + 1, without subtracting 1 first."""
    return torch.where(x > 0, x + 1, torch.exp(x))


class Model(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        query, key = _features(query), _features(key)
        state = key.transpose(-1, -2) @ value
        normaliser = query @ key.sum(dim=-2)[..., None]
        return (query @ state) / normaliser
