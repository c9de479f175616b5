"""A mixture of experts where each of E experts chooses its C tokens, added to the input.

An expert takes the tokens with its largest router probabilities, which weigh its GELU MLP's output.
T tokens of D features, H hidden features per expert.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"T": 32, "D": 48, "E": 4, "H": 48, "C": 12},
    "odd": {"T": 67, "D": 50, "E": 7, "H": 37, "C": 13},
    "perf": {"T": 512, "D": 512, "E": 8, "H": 1024, "C": 128},
}
INPUTS = {"x": "float32[T, D]"}
PARAMETERS = {
    "router_weight": "float32[D, E] weight",
    "up_weight": "float32[E, D, H] weight",
    "down_weight": "float32[E, H, D] weight",
}
OUTPUTS = {"y": "float32[T, D]"}
TOLERANCE = "F3"


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, D: int, E: int, H: int, C: int) -> None:
        super().__init__()
        self.capacity = C
        self.router_weight = _parameter(D, E)
        self.up_weight = _parameter(E, D, H)
        self.down_weight = _parameter(E, H, D)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        probabilities = F.softmax(x @ self.router_weight, dim=-1)
        share, chosen = torch.topk(probabilities.T, self.capacity, dim=-1)
        hidden = F.gelu(x[chosen] @ self.up_weight, approximate="tanh")
        outputs = share.unsqueeze(-1) * (hidden @ self.down_weight)
        return x.index_add(0, chosen.flatten(), outputs.flatten(0, 1))
