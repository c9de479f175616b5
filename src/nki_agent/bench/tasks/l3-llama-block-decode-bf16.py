"""A Llama block in bfloat16 for one new token per sequence, with a cache of keys and values.

Gives the block's output, and the new key and value that the caller appends to the cache.
B sequences with L cached tokens; H query heads and G key/value heads of D features, M hidden
features of the SwiGLU MLP.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "L": 40, "E": 64, "H": 4, "G": 2, "D": 16, "M": 96},
    "odd": {"B": 5, "L": 37, "E": 50, "H": 9, "G": 3, "D": 10, "M": 77},
    "perf": {"B": 8, "L": 2048, "E": 2048, "H": 16, "G": 4, "D": 128, "M": 5504},
}
INPUTS = {
    "x": "bfloat16[B, 1, E]",
    "key_cache": "bfloat16[B, G, L, D]",
    "value_cache": "bfloat16[B, G, L, D]",
    "cosine": "float32[1, D // 2] cosine",
    "sine": "float32[1, D // 2] sine",
}
PARAMETERS = {
    "attention_gain": "bfloat16[E] gain",
    "query_weight": "bfloat16[E, H * D] weight",
    "key_weight": "bfloat16[E, G * D] weight",
    "value_weight": "bfloat16[E, G * D] weight",
    "out_weight": "bfloat16[H * D, E] weight",
    "mlp_gain": "bfloat16[E] gain",
    "gate_weight": "bfloat16[E, M] weight",
    "up_weight": "bfloat16[E, M] weight",
    "down_weight": "bfloat16[M, E] weight",
}
OUTPUTS = {
    "y": "bfloat16[B, 1, E]",
    "new_key": "bfloat16[B, G, 1, D]",
    "new_value": "bfloat16[B, G, 1, D]",
}
TOLERANCE = "B3"
EPS = 1e-6


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.bfloat16))


def _rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotate the pairs (i, i + D / 2) of each head by the angles of its position."""
    first, second = x.chunk(2, dim=-1)
    rotated = torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
    return rotated.to(x.dtype)


class Model(nn.Module):
    def __init__(self, E: int, H: int, G: int, D: int, M: int) -> None:
        super().__init__()
        self.head_dim = D
        self.attention_gain = _parameter(E)
        self.query_weight = _parameter(E, H * D)
        self.key_weight = _parameter(E, G * D)
        self.value_weight = _parameter(E, G * D)
        self.out_weight = _parameter(H * D, E)
        self.mlp_gain = _parameter(E)
        self.gate_weight = _parameter(E, M)
        self.up_weight = _parameter(E, M)
        self.down_weight = _parameter(M, E)

    def forward(
        self,
        x: torch.Tensor,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
        cosine: torch.Tensor,
        sine: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        hidden = F.rms_norm(x, x.shape[-1:], self.attention_gain, eps=EPS)
        query = _rotate(self._split_heads(hidden @ self.query_weight), cosine, sine)
        new_key = _rotate(self._split_heads(hidden @ self.key_weight), cosine, sine)
        new_value = self._split_heads(hidden @ self.value_weight)
        attended = F.scaled_dot_product_attention(
            query,
            torch.cat([key_cache, new_key], dim=2),
            torch.cat([value_cache, new_value], dim=2),
            enable_gqa=True,
        )
        x = x + attended.transpose(1, 2).flatten(2) @ self.out_weight

        hidden = F.rms_norm(x, x.shape[-1:], self.mlp_gain, eps=EPS)
        gated = F.silu(hidden @ self.gate_weight) * (hidden @ self.up_weight)
        return x + gated @ self.down_weight, new_key, new_value

    def _split_heads(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
