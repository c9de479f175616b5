"""Causal attention with ALiBi in float32: scores fall with distance, at one slope for each head."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "H": 4, "S": 65, "D": 32},
    "odd": {"B": 2, "H": 3, "S": 91, "D": 44},
    "perf": {"B": 1, "H": 8, "S": 1024, "D": 64},
}
INPUTS = {
    "query": "float32[B, H, S, D]",
    "key": "float32[B, H, S, D]",
    "value": "float32[B, H, S, D]",
    "slope": "float32[H] decay",
}
OUTPUTS = {"y": "float32[B, H, S, D]"}
TOLERANCE = "F2"
# A query needs the keys up to its own.
MATMUL_FLOPS = "2 * B * H * D * S * (S + 1)"


class Model(nn.Module):
    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        slope: torch.Tensor,
    ) -> torch.Tensor:
        positions = torch.arange(query.shape[-2], device=query.device)
        distance = positions[:, None] - positions[None, :]
        bias = (-slope[:, None, None] * distance).masked_fill(distance < 0, float("-inf"))
        return F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
