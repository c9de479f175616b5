"""Retention in its parallel form, float32: causal products that decay with distance, no softmax."""

import torch
from torch import nn

SHAPES = {
    "dev": {"B": 1, "H": 3, "S": 65, "D": 32},
    "odd": {"B": 2, "H": 4, "S": 81, "D": 44},
    "perf": {"B": 1, "H": 8, "S": 1024, "D": 64},
}
INPUTS = {
    "query": "float32[B, H, S, D]",
    "key": "float32[B, H, S, D] small",
    "value": "float32[B, H, S, D]",
    "decay": "float32[H] decay",
}
OUTPUTS = {"y": "float32[B, H, S, D]"}
TOLERANCE = "F3"
# Kept as a state [D, D] a head, which each position reads and adds to.
MATMUL_FLOPS = "4 * B * H * S * D * D"


class Model(nn.Module):
    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        decay: torch.Tensor,
    ) -> torch.Tensor:
        positions = torch.arange(query.shape[-2], device=query.device)
        distance = positions[:, None] - positions[None, :]
        kept = (decay[:, None, None] ** distance.clamp(min=0)).tril()
        return (query @ key.transpose(-1, -2) * kept) @ value
