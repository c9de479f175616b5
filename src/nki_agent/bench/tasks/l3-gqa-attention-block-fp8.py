"""Causal grouped-query attention after an RMS norm, with projections in 8-bit floats.

Weights are stored in e4m3 with a scale per output; activations are quantised to e4m3 with a scale
per token. B sequences of S tokens; H query heads and G key/value heads of D features.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "S": 40, "E": 64, "H": 4, "G": 2, "D": 16},
    "odd": {"B": 2, "S": 29, "E": 50, "H": 9, "G": 3, "D": 10},
    "perf": {"B": 1, "S": 1024, "E": 2048, "H": 16, "G": 4, "D": 128},
}
INPUTS = {
    "x": "float32[B, S, E]",
    "cosine": "float32[S, D // 2] cosine",
    "sine": "float32[S, D // 2] sine",
}
PARAMETERS = {
    "gain": "float32[E] gain",
    "qkv_weight": "float8_e4m3[E, (H + 2 * G) * D] weight_codes",
    "qkv_scale": "float32[(H + 2 * G) * D] scale",
    "out_weight": "float8_e4m3[H * D, E] weight_codes",
    "out_scale": "float32[E] scale",
}
OUTPUTS = {"y": "float32[B, S, E]"}
TOLERANCE = "Q2"
# A query needs the keys up to its own.
MATMUL_FLOPS = "4 * B * S * E * (H + G) * D + 2 * B * H * D * S * (S + 1)"
EPS = 1e-6
FP8_MAX = 240.0


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


def _rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotate the pairs (i, i + D / 2) of each head by the angles of its position."""
    first, second = x.chunk(2, dim=-1)
    rotated = torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
    return rotated.to(x.dtype)


def _quantised_linear(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Multiply in 8-bit floats; the weight has a scale per output, each row of `x` gets its own."""
    row_scale = x.abs().amax(dim=-1, keepdim=True) / FP8_MAX
    codes = (x / row_scale).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)
    return (codes.to(x.dtype) @ weight.to(x.dtype)) * row_scale * scale


class Model(nn.Module):
    def __init__(self, E: int, H: int, G: int, D: int) -> None:
        super().__init__()
        self.head_dim = D
        self.sizes = [H * D, G * D, G * D]
        self.gain = _parameter(E)
        self.register_buffer(
            "qkv_weight", torch.empty(E, (H + 2 * G) * D, dtype=torch.float8_e4m3fn)
        )
        self.qkv_scale = _parameter((H + 2 * G) * D)
        self.register_buffer("out_weight", torch.empty(H * D, E, dtype=torch.float8_e4m3fn))
        self.out_scale = _parameter(E)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        hidden = F.rms_norm(x, x.shape[-1:], self.gain, eps=EPS)
        qkv = _quantised_linear(hidden, self.qkv_weight, self.qkv_scale)
        query, key, value = (self._split_heads(part) for part in qkv.split(self.sizes, dim=-1))
        attended = F.scaled_dot_product_attention(
            _rotate(query, cosine, sine),
            _rotate(key, cosine, sine),
            value,
            is_causal=True,
            enable_gqa=True,
        )
        merged = attended.transpose(1, 2).flatten(2)
        return x + _quantised_linear(merged, self.out_weight, self.out_scale)

    def _split_heads(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
