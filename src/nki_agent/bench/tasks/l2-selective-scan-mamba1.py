"""Selective scan of Mamba in float32: C channels of N states each, over L steps.

Each step multiplies a channel's states by exp(step * decay) and adds step * x through the input
gate; the output gate reads them, and a skip connection adds x.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"B": 1, "L": 48, "C": 16, "N": 8},
    "odd": {"B": 2, "L": 57, "C": 37, "N": 6},
    "perf": {"B": 1, "L": 2048, "C": 256, "N": 16},
}
INPUTS = {
    "step": "float32[B, L, C] positive",
    "x": "float32[B, L, C]",
    "input_gate": "float32[B, L, N]",
    "output_gate": "float32[B, L, N]",
}
PARAMETERS = {"decay": "float32[C, N] state_decay", "skip": "float32[C]"}
OUTPUTS = {"y": "float32[B, L, C]"}
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
    def __init__(self, C: int, N: int) -> None:
        super().__init__()
        self.decay = nn.Parameter(torch.empty(C, N))
        self.skip = nn.Parameter(torch.empty(C))

    def forward(
        self,
        step: torch.Tensor,
        x: torch.Tensor,
        input_gate: torch.Tensor,
        output_gate: torch.Tensor,
    ) -> torch.Tensor:
        kept = torch.exp(step[..., None] * self.decay)
        added = (step * x)[..., None] * input_gate[:, :, None]
        states = _scan(kept, added)
        y = (states * output_gate[:, :, None]).sum(dim=-1)
        return y + x * self.skip
