"""Linear layer with 4-bit weights, two codes to a byte; x is bfloat16.

Codes 0 to 15 stand for -8 to 7. Each group of 128 weights along K has a float32 scale.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 64, "K": 256, "N": 96},
    "odd": {"M": 37, "K": 384, "N": 77},
    "perf": {"M": 256, "K": 4096, "N": 4096},
}
INPUTS = {"x": "bfloat16[M, K]"}
PARAMETERS = {
    "weight": "uint8[N, K // 2] integers(0, 255)",
    "scale": "float32[N, K // 128] scale",
}
OUTPUTS = {"y": "bfloat16[M, N]"}
TOLERANCE = "B2"
GROUP = 128
ZERO_CODE = 8


def _unpack(packed: torch.Tensor) -> torch.Tensor:
    """The code in the low four bits of each byte, then the one in its high four bits."""
    return torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2)


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.empty(N, K // 2, dtype=torch.uint8))
        self.scale = nn.Parameter(torch.empty(N, K // GROUP))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        codes = _unpack(self.weight).unflatten(-1, (-1, GROUP)).float()
        weight = ((codes - ZERO_CODE) * self.scale[..., None]).flatten(-2)
        return x @ weight.to(torch.bfloat16).T
