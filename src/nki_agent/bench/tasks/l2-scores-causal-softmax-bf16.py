"""Causal attention probabilities in bfloat16: no query sees a key that comes after it."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "H": 3, "S": 65, "D": 32},
    "odd": {"B": 1, "H": 5, "S": 91, "D": 40},
    "perf": {"B": 2, "H": 8, "S": 1024, "D": 128},
}
INPUTS = {"query": "bfloat16[B, H, S, D]", "key": "bfloat16[B, H, S, D]"}
OUTPUTS = {"p": "bfloat16[B, H, S, S]"}
TOLERANCE = "B2"
# A query needs the keys up to its own.
MATMUL_FLOPS = "B * H * D * S * (S + 1)"


def _scores(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Scaled scores in float32, which no rounding to bfloat16 spoils before the softmax."""
    products = query.float() @ key.float().transpose(-1, -2)
    return products * query.shape[-1] ** -0.5


class Model(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        scores = _scores(query, key)
        is_visible = torch.ones_like(scores, dtype=torch.bool).tril()
        probabilities = F.softmax(scores.masked_fill(~is_visible, float("-inf")), dim=-1)
        return probabilities.to(torch.bfloat16)
