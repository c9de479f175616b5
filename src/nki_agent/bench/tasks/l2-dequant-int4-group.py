"""Dequantises 4-bit codes, two to a byte, to bfloat16.

Each group of 128 codes along K has a float32 scale and a zero point, the code that stands for 0.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"N": 96, "K": 256},
    "odd": {"N": 131, "K": 384},
    "perf": {"N": 4096, "K": 4096},
}
INPUTS = {
    "packed": "uint8[N, K // 2] integers(0, 255)",
    "scale": "float32[N, K // 128] scale",
    "zero": "uint8[N, K // 128] integers(0, 15)",
}
OUTPUTS = {"y": "bfloat16[N, K]"}
TOLERANCE = "B1"
GROUP = 128


def _unpack(packed: torch.Tensor) -> torch.Tensor:
    """The code in the low four bits of each byte, then the one in its high four bits."""
    return torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2)


class Model(nn.Module):
    def forward(
        self, packed: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor
    ) -> torch.Tensor:
        codes = _unpack(packed).unflatten(-1, (-1, GROUP)).float()
        y = (codes - zero[..., None].float()) * scale[..., None]
        return y.flatten(-2).to(torch.bfloat16)
