"""Lower triangle of a square float32 matrix, times another matrix."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "N": 96},
    "odd": {"M": 151, "N": 67},
    "perf": {"M": 2048, "N": 2048},
}
INPUTS = {"left": "float32[M, M]", "right": "float32[M, N] weight"}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "F2"
# Half of the left matrix is read and multiplied.
MATMUL_FLOPS = "M * (M + 1) * N"
MIN_HBM_BYTES = "4 * (M * (M + 1) // 2 + 2 * M * N)"


class Model(nn.Module):
    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return torch.tril(left) @ right
