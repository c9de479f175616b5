"""A diffusion transformer block in bfloat16 that a condition modulates (adaLN-Zero).

A linear layer of the condition gives shift, scale and gate of both the attention and the GELU MLP.
B images of S patches; E features in H heads, M hidden features of the MLP.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "S": 20, "E": 48, "H": 3, "M": 96},
    "odd": {"B": 3, "S": 26, "E": 55, "H": 5, "M": 77},
    "perf": {"B": 2, "S": 256, "E": 1152, "H": 16, "M": 4608},
}
INPUTS = {
    "x": "bfloat16[B, S, E]",
    "condition": "bfloat16[B, E]",
}
PARAMETERS = {
    "modulation_weight": "bfloat16[E, 6 * E] weight",
    "modulation_bias": "bfloat16[6 * E] bias",
    "qkv_weight": "bfloat16[E, 3 * E] weight",
    "out_weight": "bfloat16[E, E] weight",
    "up_weight": "bfloat16[E, M] weight",
    "down_weight": "bfloat16[M, E] weight",
}
OUTPUTS = {"y": "bfloat16[B, S, E]"}
TOLERANCE = "B3"


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.bfloat16))


def _modulated_norm(x: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:]) * (1.0 + scale) + shift


class Model(nn.Module):
    def __init__(self, E: int, H: int, M: int) -> None:
        super().__init__()
        self.num_heads = H
        self.modulation_weight = _parameter(E, 6 * E)
        self.modulation_bias = _parameter(6 * E)
        self.qkv_weight = _parameter(E, 3 * E)
        self.out_weight = _parameter(E, E)
        self.up_weight = _parameter(E, M)
        self.down_weight = _parameter(M, E)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        modulation = F.silu(condition) @ self.modulation_weight + self.modulation_bias
        shift1, scale1, gate1, shift2, scale2, gate2 = modulation.unsqueeze(1).chunk(6, dim=-1)
        x = x + gate1 * self._attend(_modulated_norm(x, shift1, scale1))
        hidden = _modulated_norm(x, shift2, scale2) @ self.up_weight
        return x + gate2 * (F.gelu(hidden, approximate="tanh") @ self.down_weight)

    def _attend(self, hidden: torch.Tensor) -> torch.Tensor:
        qkv = (hidden @ self.qkv_weight).chunk(3, dim=-1)
        query, key, value = (
            part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in qkv
        )
        attended = F.scaled_dot_product_attention(query, key, value)
        return attended.transpose(1, 2).flatten(2) @ self.out_weight
