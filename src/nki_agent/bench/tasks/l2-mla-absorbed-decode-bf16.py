"""One decoding step of multi-head latent attention in bfloat16, with the key projection absorbed.

All H heads share a cache of L latent vectors of width C, which are keys and values at once, and of
rotary keys of width R.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "H": 4, "L": 130, "C": 64, "R": 16},
    "odd": {"B": 3, "H": 5, "L": 147, "C": 77, "R": 22},
    "perf": {"B": 8, "H": 16, "L": 4096, "C": 512, "R": 64},
}
INPUTS = {
    "latent_query": "bfloat16[B, H, C]",
    "rotary_query": "bfloat16[B, H, R]",
    "latent_cache": "bfloat16[B, L, C]",
    "rotary_cache": "bfloat16[B, L, R]",
}
OUTPUTS = {"y": "bfloat16[B, H, C]"}
TOLERANCE = "B2"


def _products(query: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
    """In float32, which no rounding to bfloat16 spoils before the softmax."""
    return query.float() @ cache.float().transpose(-1, -2)


class Model(nn.Module):
    def forward(
        self,
        latent_query: torch.Tensor,
        rotary_query: torch.Tensor,
        latent_cache: torch.Tensor,
        rotary_cache: torch.Tensor,
    ) -> torch.Tensor:
        width = latent_query.shape[-1] + rotary_query.shape[-1]
        scores = _products(latent_query, latent_cache) + _products(rotary_query, rotary_cache)
        probabilities = F.softmax(scores * width**-0.5, dim=-1)
        return probabilities.to(torch.bfloat16) @ latent_cache
