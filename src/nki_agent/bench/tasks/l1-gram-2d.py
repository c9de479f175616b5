"""Gram matrix of a tall float32 matrix: the inner products of all pairs of its columns."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 300, "N": 96},
    "odd": {"M": 411, "N": 67},
    "perf": {"M": 8192, "N": 1024},
}
INPUTS = {"x": "float32[M, N] small"}
OUTPUTS = {"gram": "float32[N, N]"}
TOLERANCE = "F2"
# The matrix is symmetric: one half is the other's mirror.
MATMUL_FLOPS = "M * N * (N + 1)"


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.T @ x
