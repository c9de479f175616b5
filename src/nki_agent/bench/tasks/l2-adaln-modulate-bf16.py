"""Adaptive LayerNorm as in diffusion transformers, in bfloat16.

LayerNorm without weights of its own; each sequence brings its scale, counted from 1, and its shift.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "S": 65, "D": 96},
    "odd": {"B": 3, "S": 47, "D": 205},
    "perf": {"B": 4, "S": 1024, "D": 1152},
}
INPUTS = {"x": "bfloat16[B, S, D]", "scale": "bfloat16[B, D]", "shift": "bfloat16[B, D]"}
OUTPUTS = {"y": "bfloat16[B, S, D]"}
TOLERANCE = "B1"


class Model(nn.Module):
    def forward(self, x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        # In float32 inside, rounded once at the end.
        normed = F.layer_norm(x.float(), x.shape[-1:], eps=1e-5)
        modulated = normed * (1 + scale[:, None].float()) + shift[:, None].float()
        return modulated.to(torch.bfloat16)
