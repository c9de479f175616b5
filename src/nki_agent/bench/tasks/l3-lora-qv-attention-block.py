"""Causal self-attention added to its input, with low-rank adapters on queries and values.

B sequences of S tokens; E features in H heads, adapters of rank R.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "S": 40, "E": 64, "H": 4, "R": 4},
    "odd": {"B": 2, "S": 29, "E": 55, "H": 5, "R": 3},
    "perf": {"B": 1, "S": 512, "E": 1024, "H": 16, "R": 16},
}
INPUTS = {"x": "float32[B, S, E]"}
PARAMETERS = {
    "qkv_weight": "float32[E, 3 * E] weight",
    "query_down": "float32[E, R] weight",
    "query_up": "float32[R, E] weight",
    "value_down": "float32[E, R] weight",
    "value_up": "float32[R, E] weight",
    "out_weight": "float32[E, E] weight",
}
OUTPUTS = {"y": "float32[B, S, E]"}
TOLERANCE = "F3"
# A query needs the keys up to its own.
# Adapters may be added to the weights first, where they cost least.
MATMUL_FLOPS = "8 * B * S * E * E + 2 * B * E * S * (S + 1)"
ADAPTER_SCALE = 2.0


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, E: int, H: int, R: int) -> None:
        super().__init__()
        self.num_heads = H
        self.qkv_weight = _parameter(E, 3 * E)
        self.query_down = _parameter(E, R)
        self.query_up = _parameter(R, E)
        self.value_down = _parameter(E, R)
        self.value_up = _parameter(R, E)
        self.out_weight = _parameter(E, E)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (x @ self.qkv_weight).chunk(3, dim=-1)
        query = query + ADAPTER_SCALE * (x @ self.query_down @ self.query_up)
        value = value + ADAPTER_SCALE * (x @ self.value_down @ self.value_up)
        attended = F.scaled_dot_product_attention(
            self._split_heads(query),
            self._split_heads(key),
            self._split_heads(value),
            is_causal=True,
        )
        return x + attended.transpose(1, 2).flatten(2) @ self.out_weight

    def _split_heads(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
