"""A T5 encoder layer in bfloat16: self-attention with a bias by relative position, then a ReLU MLP.

Each follows an RMS norm and is added to its input. B sequences of S tokens; H heads of D features,
M hidden features of the MLP.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "S": 33, "E": 48, "H": 3, "D": 16, "M": 96},
    "odd": {"B": 3, "S": 29, "E": 50, "H": 5, "D": 11, "M": 77},
    "perf": {"B": 4, "S": 512, "E": 512, "H": 8, "D": 64, "M": 2048},
}
INPUTS = {
    "x": "bfloat16[B, S, E]",
    "position_bias": "bfloat16[H, S, S]",
}
PARAMETERS = {
    "attention_gain": "bfloat16[E] gain",
    "qkv_weight": "bfloat16[E, 3 * H * D] weight",
    "out_weight": "bfloat16[H * D, E] weight",
    "mlp_gain": "bfloat16[E] gain",
    "up_weight": "bfloat16[E, M] weight",
    "down_weight": "bfloat16[M, E] weight",
}
OUTPUTS = {"y": "bfloat16[B, S, E]"}
TOLERANCE = "B3"
EPS = 1e-6


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.bfloat16))


class Model(nn.Module):
    def __init__(self, E: int, H: int, D: int, M: int) -> None:
        super().__init__()
        self.num_heads = H
        self.attention_gain = _parameter(E)
        self.qkv_weight = _parameter(E, 3 * H * D)
        self.out_weight = _parameter(H * D, E)
        self.mlp_gain = _parameter(E)
        self.up_weight = _parameter(E, M)
        self.down_weight = _parameter(M, E)

    def forward(self, x: torch.Tensor, position_bias: torch.Tensor) -> torch.Tensor:
        hidden = F.rms_norm(x, x.shape[-1:], self.attention_gain, eps=EPS)
        qkv = (hidden @ self.qkv_weight).chunk(3, dim=-1)
        query, key, value = (self._split_heads(part) for part in qkv)
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=position_bias[None])
        x = x + attended.transpose(1, 2).flatten(2) @ self.out_weight

        hidden = F.rms_norm(x, x.shape[-1:], self.mlp_gain, eps=EPS)
        return x + torch.relu(hidden @ self.up_weight) @ self.down_weight

    def _split_heads(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
