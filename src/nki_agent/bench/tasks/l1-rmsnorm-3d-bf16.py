"""RMS normalisation of each position of a batch of sequences, with a gain, in bfloat16."""

import torch
from torch import nn
from torch.nn import functional as F

SHAPES = {
    "dev": {"B": 2, "S": 65, "D": 96},
    "odd": {"B": 3, "S": 47, "D": 131},
    "perf": {"B": 4, "S": 2048, "D": 4096},
}
INPUTS = {"x": "bfloat16[B, S, D]"}
PARAMETERS = {"gain": "bfloat16[D] gain"}
OUTPUTS = {"y": "bfloat16[B, S, D]"}
TOLERANCE = "B1"

EPSILON = 1e-6


class Model(nn.Module):
    def __init__(self, D: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.empty(D, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, self.gain.shape, self.gain, EPSILON)
