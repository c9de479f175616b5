"""First-order linear recurrence along each row: state[t] = decay[t] * state[t - 1] + x[t].

The state before the first element is zero.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "L": 200},
    "odd": {"M": 67, "L": 333},
    "perf": {"M": 2048, "L": 4096},
}
INPUTS = {"decay": "float32[M, L] decay", "x": "float32[M, L]"}
OUTPUTS = {"state": "float32[M, L]"}
TOLERANCE = "F3"


class Model(nn.Module):
    def forward(self, decay: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros_like(x[:, 0])
        states = []
        for decay_now, x_now in zip(decay.unbind(1), x.unbind(1), strict=True):
            state = torch.addcmul(x_now, decay_now, state)
            states.append(state)
        return torch.stack(states, dim=1)
