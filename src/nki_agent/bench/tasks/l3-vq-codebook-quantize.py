"""Vector quantisation: the nearest of V codebook vectors to each row, and the mean squared error.

M rows of D features.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 80, "D": 16, "V": 40},
    "odd": {"M": 67, "D": 11, "V": 29},
    "perf": {"M": 16384, "D": 64, "V": 1024},
}
INPUTS = {"x": "float32[M, D]"}
PARAMETERS = {
    "codebook": "float32[V, D]",
}
OUTPUTS = {
    "code": "int32[M]",
    "quantised": "float32[M, D]",
    "error": "float32[M]",
}
TOLERANCE = "IX"


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, V: int, D: int) -> None:
        super().__init__()
        self.codebook = _parameter(V, D)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        row_norm = (x * x).sum(dim=1, keepdim=True)
        code_norm = (self.codebook * self.codebook).sum(dim=1)
        distance = row_norm - 2.0 * (x @ self.codebook.T) + code_norm
        code = distance.argmin(dim=1)
        quantised = self.codebook[code]
        error = ((x - quantised) ** 2).mean(dim=1)
        return code.to(torch.int32), quantised, error
