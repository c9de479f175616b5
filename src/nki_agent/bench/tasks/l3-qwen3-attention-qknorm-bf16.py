"""The attention half of a Qwen3 block in bfloat16: queries and keys get an RMS norm per head.

Causal grouped-query attention with rotary positions, added to its input. B sequences of S tokens;
H query heads and G key/value heads of D features.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "S": 40, "E": 64, "H": 4, "G": 2, "D": 16},
    "odd": {"B": 2, "S": 27, "E": 50, "H": 9, "G": 3, "D": 14},
    "perf": {"B": 1, "S": 1024, "E": 2048, "H": 16, "G": 8, "D": 128},
}
INPUTS = {
    "x": "bfloat16[B, S, E]",
    "cosine": "float32[S, D // 2] cosine",
    "sine": "float32[S, D // 2] sine",
}
PARAMETERS = {
    "input_gain": "bfloat16[E] gain",
    "query_weight": "bfloat16[E, H * D] weight",
    "key_weight": "bfloat16[E, G * D] weight",
    "value_weight": "bfloat16[E, G * D] weight",
    "out_weight": "bfloat16[H * D, E] weight",
    "query_gain": "bfloat16[D] gain",
    "key_gain": "bfloat16[D] gain",
}
OUTPUTS = {"y": "bfloat16[B, S, E]"}
TOLERANCE = "B3"
# A query needs the keys up to its own.
MATMUL_FLOPS = "4 * B * S * E * (H + G) * D + 2 * B * H * D * S * (S + 1)"
EPS = 1e-6


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.bfloat16))


def _rms_norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, x.shape[-1:], gain, eps=EPS)


def _rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotate the pairs (i, i + D / 2) of each head by the angles of its position."""
    first, second = x.chunk(2, dim=-1)
    rotated = torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
    return rotated.to(x.dtype)


class Model(nn.Module):
    def __init__(self, E: int, H: int, G: int, D: int) -> None:
        super().__init__()
        self.head_dim = D
        self.input_gain = _parameter(E)
        self.query_weight = _parameter(E, H * D)
        self.key_weight = _parameter(E, G * D)
        self.value_weight = _parameter(E, G * D)
        self.out_weight = _parameter(H * D, E)
        self.query_gain = _parameter(D)
        self.key_gain = _parameter(D)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        hidden = _rms_norm(x, self.input_gain)
        query = _rms_norm(self._split_heads(hidden @ self.query_weight), self.query_gain)
        key = _rms_norm(self._split_heads(hidden @ self.key_weight), self.key_gain)
        value = self._split_heads(hidden @ self.value_weight)
        attended = F.scaled_dot_product_attention(
            _rotate(query, cosine, sine),
            _rotate(key, cosine, sine),
            value,
            is_causal=True,
            enable_gqa=True,
        )
        return x + attended.transpose(1, 2).flatten(2) @ self.out_weight

    def _split_heads(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
