"""DeepSeek's multi-head latent attention in bfloat16 over a prompt, causal.

Keys and values are made of one latent vector of C features per token; R more features of each query
and of one key that all heads share carry rotary positions. B sequences of S tokens, H heads of
D features.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "S": 40, "E": 64, "H": 4, "D": 16, "R": 8, "C": 32},
    "odd": {"B": 2, "S": 29, "E": 50, "H": 5, "D": 13, "R": 6, "C": 37},
    "perf": {"B": 1, "S": 1024, "E": 2048, "H": 16, "D": 128, "R": 64, "C": 512},
}
INPUTS = {
    "x": "bfloat16[B, S, E]",
    "cosine": "float32[S, R // 2] cosine",
    "sine": "float32[S, R // 2] sine",
}
PARAMETERS = {
    "query_weight": "bfloat16[E, H * (D + R)] weight",
    "latent_weight": "bfloat16[E, C + R] weight",
    "latent_gain": "bfloat16[C] gain",
    "key_weight": "bfloat16[C, H * D] weight",
    "value_weight": "bfloat16[C, H * D] weight",
    "out_weight": "bfloat16[H * D, E] weight",
}
OUTPUTS = {"y": "bfloat16[B, S, E]"}
TOLERANCE = "B3"
# A query needs the keys up to its own.
MATMUL_FLOPS = (
    "2 * B * S * (E * (H * (2 * D + R) + C + R) + 2 * C * H * D)"
    " + B * H * S * (S + 1) * (2 * D + R)"
)
EPS = 1e-6


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
        self.latent_dim = C
        self.query_weight = _parameter(E, H * (D + R))
        self.latent_weight = _parameter(E, C + R)
        self.latent_gain = _parameter(C)
        self.key_weight = _parameter(C, H * D)
        self.value_weight = _parameter(C, H * D)
        self.out_weight = _parameter(H * D, E)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        query = self._split_heads(x @ self.query_weight)
        plain_query, turned_query = query.split([self.head_dim, self.rotary_dim], dim=-1)

        compressed = x @ self.latent_weight
        latent, turned_key = compressed.split([self.latent_dim, self.rotary_dim], dim=-1)
        latent = F.rms_norm(latent, latent.shape[-1:], self.latent_gain, eps=EPS)
        plain_key = self._split_heads(latent @ self.key_weight)
        value = self._split_heads(latent @ self.value_weight)

        turned_query = _rotate(turned_query, cosine, sine)
        turned_key = _rotate(turned_key.unsqueeze(1), cosine, sine)
        shared_key = turned_key.expand(-1, self.num_heads, -1, -1)
        attended = F.scaled_dot_product_attention(
            torch.cat([plain_query, turned_query], dim=-1),
            torch.cat([plain_key, shared_key], dim=-1),
            value,
            is_causal=True,
        )
        return attended.transpose(1, 2).flatten(2) @ self.out_weight

    def _split_heads(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
