"""minGRU in float32: a gate of x alone decides how far the state moves towards a candidate of x."""

import torch
from torch import nn

SHAPES = {
    "dev": {"B": 2, "L": 48, "D": 40},
    "odd": {"B": 3, "L": 61, "D": 75},
    "perf": {"B": 2, "L": 1024, "D": 512},
}
INPUTS = {"x": "float32[B, L, D]"}
PARAMETERS = {
    "update_weight": "float32[D, D] weight",
    "candidate_weight": "float32[D, D] weight",
}
OUTPUTS = {"h": "float32[B, L, D]"}
TOLERANCE = "F3"


def _scan(kept: torch.Tensor, added: torch.Tensor) -> torch.Tensor:
    """state[t] = kept[t] * state[t - 1] + added[t] along dimension 1."""
    state = torch.zeros_like(added[:, 0])
    states = []
    for kept_now, added_now in zip(kept.unbind(1), added.unbind(1), strict=True):
        state = kept_now * state + added_now
        states.append(state)
    return torch.stack(states, dim=1)


class Model(nn.Module):
    def __init__(self, D: int) -> None:
        super().__init__()
        self.update_weight = nn.Parameter(torch.empty(D, D))
        self.candidate_weight = nn.Parameter(torch.empty(D, D))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        update = torch.sigmoid(x @ self.update_weight)
        candidate = x @ self.candidate_weight
        return _scan(1 - update, update * candidate)
