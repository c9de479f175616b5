"""A Mamba-2 block in its quadratic form: state-space duality is attention with decaying weights.

A gate and an RMS norm follow; the result is added to the input. B sequences of S tokens of E
features; H heads of P features with N states.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "S": 32, "E": 32, "H": 4, "P": 16, "N": 16},
    "odd": {"B": 2, "S": 29, "E": 37, "H": 5, "P": 11, "N": 13},
    "perf": {"B": 1, "S": 512, "E": 512, "H": 16, "P": 64, "N": 64},
}
INPUTS = {"x": "float32[B, S, E]"}
PARAMETERS = {
    "in_weight": "float32[E, 2 * H * P + 2 * N + H] weight",
    "step_bias": "float32[H] bias",
    "A": "float32[H] state_decay",
    "D": "float32[H]",
    "gain": "float32[H * P] gain",
    "out_weight": "float32[H * P, E] weight",
}
OUTPUTS = {"y": "float32[B, S, E]"}
TOLERANCE = "F4"
# Kept as a state [N, P] a head, which each token reads and adds to.
MATMUL_FLOPS = "2 * B * S * E * (3 * H * P + 2 * N + H) + 4 * B * S * H * N * P"
EPS = 1e-6


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, E: int, H: int, P: int, N: int) -> None:
        super().__init__()
        self.num_heads = H
        self.part_sizes = [H * P, H * P, N, N, H]
        self.in_weight = _parameter(E, 2 * H * P + 2 * N + H)
        self.step_bias = _parameter(H)
        self.A = _parameter(H)
        self.D = _parameter(H)
        self.gain = _parameter(H * P)
        self.out_weight = _parameter(H * P, E)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = (x @ self.in_weight).split(self.part_sizes, dim=-1)
        gate, value, write, read, step = parts
        value = F.silu(value).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        step = F.softplus(step + self.step_bias).transpose(1, 2)
        mixed = self._mix(value, step, F.silu(write), F.silu(read))
        mixed = mixed + value * self.D[:, None, None]

        merged = mixed.transpose(1, 2).flatten(2) * F.silu(gate)
        return x + F.rms_norm(merged, merged.shape[-1:], self.gain, eps=EPS) @ self.out_weight

    def _mix(
        self, value: torch.Tensor, step: torch.Tensor, write: torch.Tensor, read: torch.Tensor
    ) -> torch.Tensor:
        """Let each token read what tokens up to it wrote, decayed by all steps in between."""
        log_decay = torch.cumsum(step * self.A[:, None], dim=-1)
        between = log_decay.unsqueeze(-1) - log_decay.unsqueeze(-2)
        is_future = torch.ones_like(between, dtype=torch.bool).triu(diagonal=1)
        decay = torch.exp(between.masked_fill(is_future, float("-inf")))
        scores = (read @ write.transpose(-1, -2)).unsqueeze(1)
        return (scores * decay) @ (value * step.unsqueeze(-1))
