"""Triplet loss of each row with margin 1, in float32: positives should be nearer."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "N": 300},
    "odd": {"M": 75, "N": 349},
    "perf": {"M": 4096, "N": 1024},
}
INPUTS = {"anchor": "float32[M, N]", "positive": "float32[M, N]", "negative": "float32[M, N]"}
OUTPUTS = {"y": "float32[M]"}
TOLERANCE = "F3"
MARGIN = 1.0
EPS = 1e-6


def _distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.sqrt((a - b).square().sum(dim=-1) + EPS)


class Model(nn.Module):
    def forward(
        self, anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor
    ) -> torch.Tensor:
        excess = _distance(anchor, positive) - _distance(anchor, negative)
        return torch.relu(excess + MARGIN)
