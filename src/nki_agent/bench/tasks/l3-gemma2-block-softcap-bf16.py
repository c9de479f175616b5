"""A Gemma 2 block in bfloat16: windowed grouped-query attention with capped scores, GeGLU MLP.

Attention and MLP have an RMS norm before and after. A token attends to the W tokens up to itself.
B sequences of S tokens; H query heads and G key/value heads of D features, M hidden features.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "S": 40, "E": 64, "H": 4, "G": 2, "D": 16, "M": 96, "W": 16},
    "odd": {"B": 2, "S": 29, "E": 50, "H": 9, "G": 3, "D": 10, "M": 77, "W": 11},
    "perf": {"B": 1, "S": 1024, "E": 2304, "H": 8, "G": 4, "D": 256, "M": 4608, "W": 512},
}
INPUTS = {
    "x": "bfloat16[B, S, E]",
    "cosine": "float32[S, D // 2] cosine",
    "sine": "float32[S, D // 2] sine",
}
PARAMETERS = {
    "pre_attention_gain": "bfloat16[E] gain",
    "query_weight": "bfloat16[E, H * D] weight",
    "key_weight": "bfloat16[E, G * D] weight",
    "value_weight": "bfloat16[E, G * D] weight",
    "out_weight": "bfloat16[H * D, E] weight",
    "post_attention_gain": "bfloat16[E] gain",
    "pre_mlp_gain": "bfloat16[E] gain",
    "post_mlp_gain": "bfloat16[E] gain",
    "gate_weight": "bfloat16[E, M] weight",
    "up_weight": "bfloat16[E, M] weight",
    "down_weight": "bfloat16[M, E] weight",
}
OUTPUTS = {"y": "bfloat16[B, S, E]"}
TOLERANCE = "B3"
# A query needs the keys in its window; the first ones have fewer.
MATMUL_FLOPS = "2 * B * S * E * (2 * (H + G) * D + 3 * M) + 2 * B * H * D * W * (2 * S - W + 1)"
EPS = 1e-6
SCORE_CAP = 50.0


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
    def __init__(self, E: int, H: int, G: int, D: int, M: int, W: int) -> None:
        super().__init__()
        self.head_dim = D
        self.window = W
        self.pre_attention_gain = _parameter(E)
        self.query_weight = _parameter(E, H * D)
        self.key_weight = _parameter(E, G * D)
        self.value_weight = _parameter(E, G * D)
        self.out_weight = _parameter(H * D, E)
        self.post_attention_gain = _parameter(E)
        self.pre_mlp_gain = _parameter(E)
        self.post_mlp_gain = _parameter(E)
        self.gate_weight = _parameter(E, M)
        self.up_weight = _parameter(E, M)
        self.down_weight = _parameter(M, E)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        hidden = _rms_norm(x, self.pre_attention_gain)
        query = _rotate(self._split_heads(hidden @ self.query_weight), cosine, sine)
        key = _rotate(self._split_heads(hidden @ self.key_weight), cosine, sine)
        value = self._split_heads(hidden @ self.value_weight)
        attended = self._attend(query, key, value) @ self.out_weight
        x = x + _rms_norm(attended, self.post_attention_gain)

        hidden = _rms_norm(x, self.pre_mlp_gain)
        gate = F.gelu(hidden @ self.gate_weight, approximate="tanh")
        down = (gate * (hidden @ self.up_weight)) @ self.down_weight
        return x + _rms_norm(down, self.post_mlp_gain)

    def _attend(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        num_shared = query.shape[1] // key.shape[1]
        key = key.repeat_interleave(num_shared, dim=1)
        value = value.repeat_interleave(num_shared, dim=1)
        scores = query @ key.transpose(-1, -2) * self.head_dim**-0.5
        scores = SCORE_CAP * torch.tanh(scores / SCORE_CAP)

        position = torch.arange(query.shape[2], device=query.device)
        distance = position[:, None] - position
        is_seen = (distance >= 0) & (distance < self.window)
        weights = F.softmax(scores.masked_fill(~is_seen, float("-inf")), dim=-1)
        return (weights @ value).transpose(1, 2).flatten(2)

    def _split_heads(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
