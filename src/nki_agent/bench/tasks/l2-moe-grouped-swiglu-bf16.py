"""SwiGLU feed-forward block of each of E experts on its own C tokens, in bfloat16."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"E": 3, "C": 40, "D": 96, "H": 64},
    "odd": {"E": 4, "C": 29, "D": 77, "H": 115},
    "perf": {"E": 8, "C": 256, "D": 1024, "H": 1024},
}
INPUTS = {"x": "bfloat16[E, C, D]"}
PARAMETERS = {
    "gate_weight": "bfloat16[E, D, H] weight",
    "up_weight": "bfloat16[E, D, H] weight",
    "down_weight": "bfloat16[E, H, D] weight",
}
OUTPUTS = {"y": "bfloat16[E, C, D]"}
TOLERANCE = "B2"


class Model(nn.Module):
    def __init__(self, E: int, D: int, H: int) -> None:
        super().__init__()
        self.gate_weight = nn.Parameter(torch.empty(E, D, H, dtype=torch.bfloat16))
        self.up_weight = nn.Parameter(torch.empty(E, D, H, dtype=torch.bfloat16))
        self.down_weight = nn.Parameter(torch.empty(E, H, D, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.silu(x @ self.gate_weight) * (x @ self.up_weight)
        return hidden @ self.down_weight
