"""DeepSeek's multi-head latent attention in bfloat16 for one new token, on the cache of latents.

The projections from latents to keys and values are applied to queries and results instead, so that
the cache of L tokens is read as it is: C latent and R rotary features each. B sequences, H heads of
D features.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "L": 40, "E": 64, "H": 4, "D": 16, "R": 8, "C": 32},
    "odd": {"B": 3, "L": 67, "E": 50, "H": 5, "D": 13, "R": 6, "C": 37},
    "perf": {"B": 4, "L": 2048, "E": 2048, "H": 16, "D": 128, "R": 64, "C": 512},
}
INPUTS = {
    "x": "bfloat16[B, 1, E]",
    "latent_cache": "bfloat16[B, L, C]",
    "rotary_cache": "bfloat16[B, L, R]",
    "cosine": "float32[1, R // 2] cosine",
    "sine": "float32[1, R // 2] sine",
}
PARAMETERS = {
    "query_weight": "bfloat16[E, H * (D + R)] weight",
    "key_weight": "bfloat16[H, D, C] weight",
    "value_weight": "bfloat16[H, C, D] weight",
    "out_weight": "bfloat16[H * D, E] weight",
}
OUTPUTS = {"y": "bfloat16[B, 1, E]"}
TOLERANCE = "B3"


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.bfloat16))


def _rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotate the pairs (i, i + R / 2) of each head by the angles of its position."""
    first, second = x.chunk(2, dim=-1)
    rotated = torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
    return rotated.to(x.dtype)


class Model(nn.Module):
    def __init__(self, E: int, H: int, D: int, R: int, C: int) -> None:
        super().__init__()
        self.num_heads = H
        self.head_dim = D
        self.rotary_dim = R
        self.query_weight = _parameter(E, H * (D + R))
        self.key_weight = _parameter(H, D, C)
        self.value_weight = _parameter(H, C, D)
        self.out_weight = _parameter(H * D, E)

    def forward(
        self,
        x: torch.Tensor,
        latent_cache: torch.Tensor,
        rotary_cache: torch.Tensor,
        cosine: torch.Tensor,
        sine: torch.Tensor,
    ) -> torch.Tensor:
        query = (x @ self.query_weight).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        plain_query, turned_query = query.split([self.head_dim, self.rotary_dim], dim=-1)
        latent_query = plain_query @ self.key_weight
        turned_query = _rotate(turned_query, cosine, sine)

        latents = latent_cache.unsqueeze(1)
        turned_keys = rotary_cache.unsqueeze(1)
        scores = latent_query @ latents.transpose(-1, -2)
        scores = scores + turned_query @ turned_keys.transpose(-1, -2)
        scale = (self.head_dim + self.rotary_dim) ** -0.5
        weights = F.softmax(scores * scale, dim=-1)

        attended = (weights @ latents) @ self.value_weight
        return attended.transpose(1, 2).flatten(2) @ self.out_weight
