"""One decoding step of grouped-query attention in bfloat16, over caches of different lengths.

H query heads share G key heads. Of a sequence's L cache positions the first `lengths` are valid.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 3, "H": 4, "G": 2, "L": 130, "D": 32},
    "odd": {"B": 1, "H": 10, "G": 5, "L": 157, "D": 44},
    "perf": {"B": 8, "H": 32, "G": 8, "L": 4096, "D": 128},
}
INPUTS = {
    "query": "bfloat16[B, H, 1, D]",
    "key": "bfloat16[B, G, L, D]",
    "value": "bfloat16[B, G, L, D]",
    "lengths": "int32[B] lengths(L)",
}
OUTPUTS = {"y": "bfloat16[B, H, 1, D]"}
TOLERANCE = "B2"
# Lengths are drawn in pairs that add up to L + 1; only valid positions are read.
MATMUL_FLOPS = "4 * H * D * (B // 2 * (L + 1))"
MIN_HBM_BYTES = "4 * B * H * D + 4 * G * D * (B // 2 * (L + 1)) + 4 * B"


class Model(nn.Module):
    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        positions = torch.arange(key.shape[-2], device=key.device)
        is_valid = (positions < lengths[:, None])[:, None, None]
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=is_valid, enable_gqa=True
        )
