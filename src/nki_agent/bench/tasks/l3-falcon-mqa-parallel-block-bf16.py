"""A Falcon block in bfloat16: multi-query attention and a GELU MLP side by side on one layer norm.

All H query heads share one key and one value head of D features; attention is causal, with rotary
positions. B sequences of S tokens, M hidden features of the MLP.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "S": 40, "E": 64, "H": 4, "D": 16, "M": 96},
    "odd": {"B": 2, "S": 29, "E": 50, "H": 5, "D": 14, "M": 77},
    "perf": {"B": 1, "S": 512, "E": 1024, "H": 16, "D": 64, "M": 4096},
}
INPUTS = {
    "x": "bfloat16[B, S, E]",
    "cosine": "bfloat16[S, D // 2] cosine",
    "sine": "bfloat16[S, D // 2] sine",
}
PARAMETERS = {
    "norm_gain": "bfloat16[E] gain",
    "norm_bias": "bfloat16[E] bias",
    "query_weight": "bfloat16[E, H * D] weight",
    "key_weight": "bfloat16[E, D] weight",
    "value_weight": "bfloat16[E, D] weight",
    "out_weight": "bfloat16[H * D, E] weight",
    "up_weight": "bfloat16[E, M] weight",
    "down_weight": "bfloat16[M, E] weight",
}
OUTPUTS = {"y": "bfloat16[B, S, E]"}
TOLERANCE = "B3"
# A query needs the keys up to its own.
MATMUL_FLOPS = "4 * B * S * E * ((H + 1) * D + M) + 2 * B * H * D * S * (S + 1)"


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.bfloat16))


def _rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotate the pairs (i, i + D / 2) of each head by the angles of its position."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


class Model(nn.Module):
    def __init__(self, E: int, H: int, D: int, M: int) -> None:
        super().__init__()
        self.num_heads = H
        self.norm_gain = _parameter(E)
        self.norm_bias = _parameter(E)
        self.query_weight = _parameter(E, H * D)
        self.key_weight = _parameter(E, D)
        self.value_weight = _parameter(E, D)
        self.out_weight = _parameter(H * D, E)
        self.up_weight = _parameter(E, M)
        self.down_weight = _parameter(M, E)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        hidden = F.layer_norm(x, x.shape[-1:], self.norm_gain, self.norm_bias)

        query = (hidden @ self.query_weight).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        key = (hidden @ self.key_weight).unsqueeze(1)
        value = (hidden @ self.value_weight).unsqueeze(1)
        attended = F.scaled_dot_product_attention(
            _rotate(query, cosine, sine),
            _rotate(key, cosine, sine),
            value,
            is_causal=True,
            enable_gqa=True,
        )
        attention = attended.transpose(1, 2).flatten(2) @ self.out_weight

        mlp = F.gelu(hidden @ self.up_weight) @ self.down_weight
        return x + attention + mlp
