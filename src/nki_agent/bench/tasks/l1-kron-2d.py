"""Kronecker product of two matrices with the axes of both kept apart.

y[a, c, b, d] = left[a, b] * right[c, d], so that merging a with c and b with d gives the matrix.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"A": 8, "B": 6, "C": 10, "D": 5},
    "odd": {"A": 7, "B": 9, "C": 11, "D": 4},
    "perf": {"A": 64, "B": 64, "C": 64, "D": 32},
}
INPUTS = {"left": "float32[A, B]", "right": "float32[C, D]"}
OUTPUTS = {"y": "float32[A, C, B, D]"}
TOLERANCE = "F1"


class Model(nn.Module):
    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        outer_rows, outer_columns = left.shape
        inner_rows, inner_columns = right.shape
        product = torch.kron(left, right)
        return product.view(outer_rows, inner_rows, outer_columns, inner_columns)
