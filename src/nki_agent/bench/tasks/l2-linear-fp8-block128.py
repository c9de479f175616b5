"""Linear layer on fp8 values with float32 scales by block, computed in float32.

x has a scale for every 128 elements of a row, the weight one for every block of 128 by 128.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 128, "K": 256, "N": 256},
    "odd": {"M": 77, "K": 384, "N": 128},
    "perf": {"M": 2048, "K": 2048, "N": 2048},
}
INPUTS = {"x": "float8_e4m3[M, K]", "scale": "float32[M, K // 128] scale"}
PARAMETERS = {
    "weight": "float8_e4m3[K, N]",
    "weight_scale": "float32[K // 128, N // 128] scale",
}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "F2"
# Scales belong to blocks of products: a kernel multiplies the 8-bit values.
MATMUL_DTYPE = "float8_e4m3"
BLOCK = 128


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.empty(K, N, dtype=torch.float8_e4m3fn))
        self.weight_scale = nn.Parameter(torch.empty(K // BLOCK, N // BLOCK))

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        row_scale = scale.repeat_interleave(BLOCK, dim=1)
        block_scale = self.weight_scale.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
        return (x.float() * row_scale) @ (self.weight.float() * block_scale)
