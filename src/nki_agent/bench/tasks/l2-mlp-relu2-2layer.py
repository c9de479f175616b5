"""Two-layer MLP without biases and with squared ReLU between the layers, in float32."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "K": 96, "H": 200},
    "odd": {"M": 75, "K": 147, "H": 309},
    "perf": {"M": 2048, "K": 1024, "H": 4096},
}
INPUTS = {"x": "float32[M, K]"}
PARAMETERS = {"up_weight": "float32[K, H] weight", "down_weight": "float32[H, K] weight"}
OUTPUTS = {"y": "float32[M, K]"}
TOLERANCE = "F2"


class Model(nn.Module):
    def __init__(self, K: int, H: int) -> None:
        super().__init__()
        self.up_weight = nn.Parameter(torch.empty(K, H))
        self.down_weight = nn.Parameter(torch.empty(H, K))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(x @ self.up_weight).square()
        return hidden @ self.down_weight
