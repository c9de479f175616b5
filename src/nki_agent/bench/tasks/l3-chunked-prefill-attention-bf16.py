"""Grouped-query attention in bfloat16 of one chunk of a prompt, after a cache of earlier tokens.

Each of the S tokens attends to all L cached ones and, within the chunk, up to itself. B sequences;
H query heads and G key/value heads of D features.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "H": 4, "G": 2, "S": 24, "L": 64, "D": 16},
    "odd": {"B": 2, "H": 9, "G": 3, "S": 29, "L": 37, "D": 11},
    "perf": {"B": 1, "H": 16, "G": 4, "S": 256, "L": 2048, "D": 128},
}
INPUTS = {
    "query": "bfloat16[B, H, S, D]",
    "key": "bfloat16[B, G, S, D]",
    "value": "bfloat16[B, G, S, D]",
    "key_cache": "bfloat16[B, G, L, D]",
    "value_cache": "bfloat16[B, G, L, D]",
}
OUTPUTS = {"y": "bfloat16[B, H, S, D]"}
TOLERANCE = "B2"
# A query needs the cache and the new keys up to its own.
MATMUL_FLOPS = "2 * B * H * D * S * (2 * L + S + 1)"


class Model(nn.Module):
    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
    ) -> torch.Tensor:
        num_cached, num_new = key_cache.shape[2], query.shape[2]
        position = torch.arange(num_cached + num_new, device=query.device)
        is_seen = position <= position[num_cached:, None]
        return F.scaled_dot_product_attention(
            query,
            torch.cat([key_cache, key], dim=2),
            torch.cat([value_cache, value], dim=2),
            attn_mask=is_seen,
            enable_gqa=True,
        )
