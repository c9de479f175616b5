"""Both attentions of a T5 decoder layer: causal over the tokens, then over an encoder's states.

Each follows an RMS norm and is added to its input. B sequences of S tokens, U encoder states;
H heads of D features.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "S": 20, "U": 33, "E": 48, "H": 3, "D": 16},
    "odd": {"B": 3, "S": 29, "U": 17, "E": 50, "H": 5, "D": 11},
    "perf": {"B": 4, "S": 128, "U": 512, "E": 512, "H": 8, "D": 64},
}
INPUTS = {
    "x": "float32[B, S, E]",
    "encoder_states": "float32[B, U, E]",
}
PARAMETERS = {
    "self_gain": "float32[E] gain",
    "self_qkv_weight": "float32[E, 3 * H * D] weight",
    "self_out_weight": "float32[H * D, E] weight",
    "cross_gain": "float32[E] gain",
    "cross_query_weight": "float32[E, H * D] weight",
    "cross_key_weight": "float32[E, H * D] weight",
    "cross_value_weight": "float32[E, H * D] weight",
    "cross_out_weight": "float32[H * D, E] weight",
}
OUTPUTS = {"y": "float32[B, S, E]"}
TOLERANCE = "F3"
# In the first attention a query needs the keys up to its own.
MATMUL_FLOPS = "4 * B * E * H * D * (3 * S + U) + 2 * B * H * D * S * (S + 1 + 2 * U)"
EPS = 1e-6


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, E: int, H: int, D: int) -> None:
        super().__init__()
        self.num_heads = H
        self.self_gain = _parameter(E)
        self.self_qkv_weight = _parameter(E, 3 * H * D)
        self.self_out_weight = _parameter(H * D, E)
        self.cross_gain = _parameter(E)
        self.cross_query_weight = _parameter(E, H * D)
        self.cross_key_weight = _parameter(E, H * D)
        self.cross_value_weight = _parameter(E, H * D)
        self.cross_out_weight = _parameter(H * D, E)

    def forward(self, x: torch.Tensor, encoder_states: torch.Tensor) -> torch.Tensor:
        hidden = F.rms_norm(x, x.shape[-1:], self.self_gain, eps=EPS)
        query, key, value = (hidden @ self.self_qkv_weight).chunk(3, dim=-1)
        x = x + self._attend(query, key, value, is_causal=True) @ self.self_out_weight

        hidden = F.rms_norm(x, x.shape[-1:], self.cross_gain, eps=EPS)
        query = hidden @ self.cross_query_weight
        key = encoder_states @ self.cross_key_weight
        value = encoder_states @ self.cross_value_weight
        return x + self._attend(query, key, value, is_causal=False) @ self.cross_out_weight

    def _attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, is_causal: bool
    ) -> torch.Tensor:
        query, key, value = (
            part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in (query, key, value)
        )
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=is_causal)
        return attended.transpose(1, 2).flatten(2)
