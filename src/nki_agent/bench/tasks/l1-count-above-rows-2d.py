"""How many elements of each row are above the row's own threshold."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "N": 300},
    "odd": {"M": 67, "N": 411},
    "perf": {"M": 8192, "N": 4096},
}
INPUTS = {"x": "float32[M, N]", "threshold": "float32[M]"}
OUTPUTS = {"count": "int32[M]"}
TOLERANCE = "EX"


class Model(nn.Module):
    def forward(self, x: torch.Tensor, threshold: torch.Tensor) -> torch.Tensor:
        is_above = x > threshold.unsqueeze(1)
        return is_above.sum(dim=1).to(torch.int32)
