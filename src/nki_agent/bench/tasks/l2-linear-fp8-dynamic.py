"""Linear layer in fp8: the weight is stored so, and each row of x is quantised at run time.

A row's scale brings its largest magnitude to 240, the largest value of the format. Each output
feature of the weight has its own scale.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 256, "N": 96},
    "odd": {"M": 77, "K": 193, "N": 151},
    "perf": {"M": 2048, "K": 2048, "N": 2048},
}
INPUTS = {"x": "float32[M, K]"}
PARAMETERS = {"weight": "float8_e4m3[K, N]", "weight_scale": "float32[N] scale"}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "Q2"
FP8_MAX = 240.0


def _round_to_fp8(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn).float()


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.empty(K, N, dtype=torch.float8_e4m3fn))
        self.weight_scale = nn.Parameter(torch.empty(N))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = x.abs().amax(dim=1, keepdim=True) / FP8_MAX
        product = _round_to_fp8(x / scale) @ self.weight.float()
        return product * scale * self.weight_scale
