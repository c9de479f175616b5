"""One decoding step of grouped-query attention in bfloat16, over a cache that is stored in pages.

H query heads share G key heads. The cache has P pages of Z positions; a row of the table names the
U pages of one sequence, in order.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "H": 4, "G": 2, "P": 12, "Z": 16, "U": 3, "D": 32},
    "odd": {"B": 1, "H": 10, "G": 5, "P": 17, "Z": 14, "U": 7, "D": 44},
    "perf": {"B": 4, "H": 16, "G": 4, "P": 128, "Z": 128, "U": 16, "D": 128},
}
INPUTS = {
    "query": "bfloat16[B, H, 1, D]",
    "key_pages": "bfloat16[P, Z, G, D]",
    "value_pages": "bfloat16[P, Z, G, D]",
    "page_table": "int32[B, U] unique(P)",
}
OUTPUTS = {"y": "bfloat16[B, H, 1, D]"}
TOLERANCE = "B2"


def _gather(pages: torch.Tensor, page_table: torch.Tensor) -> torch.Tensor:
    """Each sequence's pages one after the other: [B, G, U * Z, D]."""
    return pages[page_table.long()].flatten(1, 2).transpose(1, 2)


class Model(nn.Module):
    def forward(
        self,
        query: torch.Tensor,
        key_pages: torch.Tensor,
        value_pages: torch.Tensor,
        page_table: torch.Tensor,
    ) -> torch.Tensor:
        key = _gather(key_pages, page_table)
        value = _gather(value_pages, page_table)
        return F.scaled_dot_product_attention(query, key, value, enable_gqa=True)
