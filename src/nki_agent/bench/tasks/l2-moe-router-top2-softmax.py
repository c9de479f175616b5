"""Router of a mixture of experts in float32: softmax over the two best experts of each token."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"T": 130, "D": 96, "E": 16},
    "odd": {"T": 77, "D": 115, "E": 21},
    "perf": {"T": 4096, "D": 2048, "E": 64},
}
INPUTS = {"x": "float32[T, D]"}
PARAMETERS = {"weight": "float32[D, E] weight"}
OUTPUTS = {"p": "float32[T, 2]", "expert": "int32[T, 2]"}
TOLERANCE = "IX"
NUM_CHOSEN = 2


class Model(nn.Module):
    def __init__(self, D: int, E: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(D, E))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = x @ self.weight
        best, expert = torch.topk(logits, NUM_CHOSEN, dim=-1)
        return F.softmax(best, dim=-1), expert.to(torch.int32)
