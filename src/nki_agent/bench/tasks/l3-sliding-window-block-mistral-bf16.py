"""A Mistral block in bfloat16: grouped-query attention to the last W tokens, then a SwiGLU MLP.

Each follows an RMS norm and is added to its input; positions are rotary. B sequences of S tokens;
H query heads and G key/value heads of D features, M hidden features.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "S": 40, "E": 64, "H": 4, "G": 2, "D": 16, "M": 96, "W": 16},
    "odd": {"B": 2, "S": 29, "E": 50, "H": 9, "G": 3, "D": 10, "M": 77, "W": 11},
    "perf": {"B": 1, "S": 2048, "E": 1024, "H": 16, "G": 4, "D": 64, "M": 3584, "W": 512},
}
INPUTS = {
    "x": "bfloat16[B, S, E]",
    "cosine": "float32[S, D // 2] cosine",
    "sine": "float32[S, D // 2] sine",
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
OUTPUTS = {"y": "bfloat16[B, S, E]"}
TOLERANCE = "B3"
# A query needs the keys in its window; the first ones have fewer.
MATMUL_FLOPS = "2 * B * S * E * (2 * (H + G) * D + 3 * M) + 2 * B * H * D * W * (2 * S - W + 1)"
EPS = 1e-6


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.bfloat16))


def _rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotate the pairs (i, i + D / 2) of each head by the angles of its position."""
    first, second = x.chunk(2, dim=-1)
    rotated = torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
    return rotated.to(x.dtype)


def _window_mask(num_tokens: int, window: int, device: torch.device) -> torch.Tensor:
    """Which key (column) each query (row) attends to: itself and the ones just before it."""
    position = torch.arange(num_tokens, device=device)
    distance = position[:, None] - position
    return (distance >= 0) & (distance < window)


class Model(nn.Module):
    def __init__(self, E: int, H: int, G: int, D: int, M: int, W: int) -> None:
        super().__init__()
        self.head_dim = D
        self.window = W
        self.attention_gain = _parameter(E)
        self.query_weight = _parameter(E, H * D)
        self.key_weight = _parameter(E, G * D)
        self.value_weight = _parameter(E, G * D)
        self.out_weight = _parameter(H * D, E)
        self.mlp_gain = _parameter(E)
        self.gate_weight = _parameter(E, M)
        self.up_weight = _parameter(E, M)
        self.down_weight = _parameter(M, E)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        hidden = F.rms_norm(x, x.shape[-1:], self.attention_gain, eps=EPS)
        query = _rotate(self._split_heads(hidden @ self.query_weight), cosine, sine)
        key = _rotate(self._split_heads(hidden @ self.key_weight), cosine, sine)
        value = self._split_heads(hidden @ self.value_weight)
        mask = _window_mask(x.shape[1], self.window, x.device)
        attended = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, enable_gqa=True
        )
        x = x + attended.transpose(1, 2).flatten(2) @ self.out_weight

        hidden = F.rms_norm(x, x.shape[-1:], self.mlp_gain, eps=EPS)
        gated = F.silu(hidden @ self.gate_weight) * (hidden @ self.up_weight)
        return x + gated @ self.down_weight

    def _split_heads(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
