"""Causal attention in bfloat16 over a window: a query sees its own position and W - 1 before."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "H": 3, "S": 130, "D": 32, "W": 32},
    "odd": {"B": 2, "H": 4, "S": 77, "D": 40, "W": 19},
    "perf": {"B": 1, "H": 16, "S": 2048, "D": 128, "W": 512},
}
INPUTS = {
    "query": "bfloat16[B, H, S, D]",
    "key": "bfloat16[B, H, S, D]",
    "value": "bfloat16[B, H, S, D]",
}
OUTPUTS = {"y": "bfloat16[B, H, S, D]"}
TOLERANCE = "B2"
# A query needs the keys in its window; the first ones have fewer.
MATMUL_FLOPS = "2 * B * H * D * W * (2 * S - W + 1)"


class Model(nn.Module):
    def __init__(self, W: int) -> None:
        super().__init__()
        self.window = W

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(query.shape[-2], device=query.device)
        distance = positions[:, None] - positions[None, :]
        is_visible = (distance >= 0) & (distance < self.window)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=is_visible)
