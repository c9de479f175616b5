"""BLAS GEMM in float32: alpha times a matrix product plus beta times a third matrix."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 200, "N": 300},
    "odd": {"M": 109, "K": 259, "N": 187},
    "perf": {"M": 2048, "K": 2048, "N": 2048},
}
INPUTS = {
    "a": "float32[M, K]",
    "b": "float32[K, N] weight",
    "c": "float32[M, N]",
    "alpha": "float32[1]",
    "beta": "float32[1]",
}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "F2"


class Model(nn.Module):
    def forward(
        self,
        a: torch.Tensor,
        b: torch.Tensor,
        c: torch.Tensor,
        alpha: torch.Tensor,
        beta: torch.Tensor,
    ) -> torch.Tensor:
        return alpha * (a @ b) + beta * c
