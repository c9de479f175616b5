"""InfoNCE loss in float32: row i of a should be most like row i of b, by cosine."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "D": 96},
    "odd": {"M": 107, "D": 151},
    "perf": {"M": 2048, "D": 512},
}
INPUTS = {"a": "float32[M, D]", "b": "float32[M, D]"}
OUTPUTS = {"y": "float32[M]"}
TOLERANCE = "F3"
TEMPERATURE = 0.1
EPS = 1e-12


def _normalise(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().sum(dim=-1, keepdim=True) + EPS)


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        similarity = _normalise(a) @ _normalise(b).T / TEMPERATURE
        return torch.logsumexp(similarity, dim=-1) - torch.diagonal(similarity)
