"""Causal attention in bfloat16, with RMSNorm over each head of the queries and of the keys."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "H": 3, "S": 65, "D": 32},
    "odd": {"B": 2, "H": 4, "S": 85, "D": 44},
    "perf": {"B": 1, "H": 8, "S": 1024, "D": 128},
}
INPUTS = {
    "query": "bfloat16[B, H, S, D]",
    "key": "bfloat16[B, H, S, D]",
    "value": "bfloat16[B, H, S, D]",
}
PARAMETERS = {"query_gain": "bfloat16[D] gain", "key_gain": "bfloat16[D] gain"}
OUTPUTS = {"y": "bfloat16[B, H, S, D]"}
TOLERANCE = "B2"
# A query needs the keys up to its own.
MATMUL_FLOPS = "2 * B * H * D * S * (S + 1)"
EPS = 1e-6


def _rms_norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * gain


class Model(nn.Module):
    def __init__(self, D: int) -> None:
        super().__init__()
        self.query_gain = nn.Parameter(torch.empty(D, dtype=torch.bfloat16))
        self.key_gain = nn.Parameter(torch.empty(D, dtype=torch.bfloat16))

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        query = _rms_norm(query, self.query_gain)
        key = _rms_norm(key, self.key_gain)
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)
