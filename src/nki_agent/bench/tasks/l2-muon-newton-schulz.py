"""Muon's orthogonalisation of a gradient in float32: two Newton-Schulz steps of degree five."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 64, "N": 96},
    "odd": {"M": 77, "N": 125},
    "perf": {"M": 512, "N": 1024},
}
INPUTS = {"grad": "float32[M, N]"}
OUTPUTS = {"x": "float32[M, N]"}
TOLERANCE = "F3"
# The result is a polynomial of degree 12 in the Gram matrix, times the gradient: the Gram matrix,
# four products of symmetric matrices at least, of which one half each is needed, and the last one.
MATMUL_FLOPS = "M * (M + 1) * (N + 4 * M) + 2 * M * M * N"
NUM_STEPS = 2
# Coefficients of the odd polynomial that drives singular values towards 1.
LINEAR, CUBIC, QUINTIC = 3.4445, -4.775, 2.0315


class Model(nn.Module):
    def forward(self, grad: torch.Tensor) -> torch.Tensor:
        x = grad * torch.rsqrt(grad.square().sum())
        for _ in range(NUM_STEPS):
            gram = x @ x.T
            x = LINEAR * x + (CUBIC * gram + QUINTIC * (gram @ gram)) @ x
        return x
