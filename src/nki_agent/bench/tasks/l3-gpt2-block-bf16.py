"""A GPT-2 block in bfloat16: causal self-attention and a GELU MLP, each after a layer norm.

B sequences of S tokens; E features in H heads, M hidden features of the MLP.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "S": 40, "E": 48, "H": 3, "M": 96},
    "odd": {"B": 2, "S": 27, "E": 55, "H": 5, "M": 130},
    "perf": {"B": 1, "S": 1024, "E": 768, "H": 12, "M": 3072},
}
INPUTS = {"x": "bfloat16[B, S, E]"}
PARAMETERS = {
    "norm1_gain": "bfloat16[E] gain",
    "norm1_bias": "bfloat16[E] bias",
    "qkv_weight": "bfloat16[E, 3 * E] weight",
    "qkv_bias": "bfloat16[3 * E] bias",
    "out_weight": "bfloat16[E, E] weight",
    "out_bias": "bfloat16[E] bias",
    "norm2_gain": "bfloat16[E] gain",
    "norm2_bias": "bfloat16[E] bias",
    "up_weight": "bfloat16[E, M] weight",
    "up_bias": "bfloat16[M] bias",
    "down_weight": "bfloat16[M, E] weight",
    "down_bias": "bfloat16[E] bias",
}
OUTPUTS = {"y": "bfloat16[B, S, E]"}
TOLERANCE = "B3"
# A query needs the keys up to its own.
MATMUL_FLOPS = "4 * B * S * E * (2 * E + M) + 2 * B * E * S * (S + 1)"


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.bfloat16))


class Model(nn.Module):
    def __init__(self, E: int, H: int, M: int) -> None:
        super().__init__()
        self.num_heads = H
        self.norm1_gain = _parameter(E)
        self.norm1_bias = _parameter(E)
        self.qkv_weight = _parameter(E, 3 * E)
        self.qkv_bias = _parameter(3 * E)
        self.out_weight = _parameter(E, E)
        self.out_bias = _parameter(E)
        self.norm2_gain = _parameter(E)
        self.norm2_bias = _parameter(E)
        self.up_weight = _parameter(E, M)
        self.up_bias = _parameter(M)
        self.down_weight = _parameter(M, E)
        self.down_bias = _parameter(E)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.layer_norm(x, x.shape[-1:], self.norm1_gain, self.norm1_bias)
        x = x + self._attend(hidden)
        hidden = F.layer_norm(x, x.shape[-1:], self.norm2_gain, self.norm2_bias)
        hidden = F.gelu(hidden @ self.up_weight + self.up_bias, approximate="tanh")
        return x + hidden @ self.down_weight + self.down_bias

    def _attend(self, hidden: torch.Tensor) -> torch.Tensor:
        qkv = hidden @ self.qkv_weight + self.qkv_bias
        query, key, value = (self._split_heads(part) for part in qkv.chunk(3, dim=-1))
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return attended.transpose(1, 2).flatten(2) @ self.out_weight + self.out_bias

    def _split_heads(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
