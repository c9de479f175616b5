"""Causal grouped-query attention over a prompt, in bfloat16: H query heads share G key heads."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "H": 4, "G": 2, "S": 130, "D": 32},
    "odd": {"B": 3, "H": 10, "G": 5, "S": 53, "D": 44},
    "perf": {"B": 1, "H": 32, "G": 8, "S": 2048, "D": 128},
}
INPUTS = {
    "query": "bfloat16[B, H, S, D]",
    "key": "bfloat16[B, G, S, D]",
    "value": "bfloat16[B, G, S, D]",
}
OUTPUTS = {"y": "bfloat16[B, H, S, D]"}
TOLERANCE = "B2"
# A query needs the keys up to its own.
MATMUL_FLOPS = "2 * B * H * D * S * (S + 1)"


class Model(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
