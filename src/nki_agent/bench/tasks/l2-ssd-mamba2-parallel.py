"""State space duality of Mamba-2 in float32, in its parallel form: a decaying causal attention.

H heads of P channels have a step of their own at each of L positions; the gates of width N are
shared.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"B": 1, "H": 2, "L": 48, "P": 16, "N": 16},
    "odd": {"B": 4, "H": 3, "L": 59, "P": 22, "N": 13},
    "perf": {"B": 1, "H": 16, "L": 1024, "P": 64, "N": 64},
}
INPUTS = {
    "x": "float32[B, H, L, P]",
    "step": "float32[B, H, L] positive",
    "input_gate": "float32[B, L, N]",
    "output_gate": "float32[B, L, N]",
}
PARAMETERS = {"decay": "float32[H] state_decay"}
OUTPUTS = {"y": "float32[B, H, L, P]"}
TOLERANCE = "F3"
# Kept as a state [N, P] a head, which each position reads and adds to.
MATMUL_FLOPS = "4 * B * H * L * N * P"


def _decay_between(log_kept: torch.Tensor) -> torch.Tensor:
    """What is left at a later position of an earlier one's state; nothing flows backwards."""
    total = log_kept.cumsum(dim=-1)
    between = total[..., :, None] - total[..., None, :]
    is_causal = torch.ones_like(between, dtype=torch.bool).tril()
    return torch.exp(between.masked_fill(~is_causal, float("-inf")))


class Model(nn.Module):
    def __init__(self, H: int) -> None:
        super().__init__()
        self.decay = nn.Parameter(torch.empty(H))

    def forward(
        self,
        x: torch.Tensor,
        step: torch.Tensor,
        input_gate: torch.Tensor,
        output_gate: torch.Tensor,
    ) -> torch.Tensor:
        scores = output_gate @ input_gate.transpose(-1, -2)
        left = _decay_between(step * self.decay[:, None])
        return (scores[:, None] * left) @ (x * step[..., None])
