"""A Phi block in bfloat16: causal attention and a GELU MLP side by side on one layer norm.

Rotary positions turn the first R features of each head. B sequences of S tokens; H heads of
D features, M hidden features of the MLP.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "S": 40, "E": 64, "H": 4, "D": 16, "M": 96, "R": 8},
    "odd": {"B": 2, "S": 29, "E": 50, "H": 5, "D": 13, "M": 77, "R": 6},
    "perf": {"B": 1, "S": 1024, "E": 2048, "H": 32, "D": 64, "M": 8192, "R": 32},
}
INPUTS = {
    "x": "bfloat16[B, S, E]",
    "cosine": "float32[S, R // 2] cosine",
    "sine": "float32[S, R // 2] sine",
}
PARAMETERS = {
    "norm_gain": "bfloat16[E] gain",
    "norm_bias": "bfloat16[E] bias",
    "qkv_weight": "bfloat16[E, 3 * H * D] weight",
    "out_weight": "bfloat16[H * D, E] weight",
    "up_weight": "bfloat16[E, M] weight",
    "down_weight": "bfloat16[M, E] weight",
}
OUTPUTS = {"y": "bfloat16[B, S, E]"}
TOLERANCE = "B3"
# A query needs the keys up to its own.
MATMUL_FLOPS = "4 * B * S * E * (2 * H * D + M) + 2 * B * H * D * S * (S + 1)"


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.bfloat16))


def _rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotate the pairs (i, i + R / 2) of each head by the angles of its position."""
    first, second = x.chunk(2, dim=-1)
    rotated = torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
    return rotated.to(x.dtype)


class Model(nn.Module):
    def __init__(self, E: int, H: int, D: int, M: int, R: int) -> None:
        super().__init__()
        self.num_heads = H
        self.rotary_dim = R
        self.norm_gain = _parameter(E)
        self.norm_bias = _parameter(E)
        self.qkv_weight = _parameter(E, 3 * H * D)
        self.out_weight = _parameter(H * D, E)
        self.up_weight = _parameter(E, M)
        self.down_weight = _parameter(M, E)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        hidden = F.layer_norm(x, x.shape[-1:], self.norm_gain, self.norm_bias)

        qkv = (hidden @ self.qkv_weight).chunk(3, dim=-1)
        query, key, value = (self._split_heads(part) for part in qkv)
        query = self._rotate_first(query, cosine, sine)
        key = self._rotate_first(key, cosine, sine)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        attention = attended.transpose(1, 2).flatten(2) @ self.out_weight

        mlp = F.gelu(hidden @ self.up_weight, approximate="tanh") @ self.down_weight
        return x + attention + mlp

    def _rotate_first(
        self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor
    ) -> torch.Tensor:
        turned, kept = x[..., : self.rotary_dim], x[..., self.rotary_dim :]
        return torch.cat([_rotate(turned, cosine, sine), kept], dim=-1)

    def _split_heads(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
