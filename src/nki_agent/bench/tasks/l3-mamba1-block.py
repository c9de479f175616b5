"""A Mamba block: causal convolution, selective state-space scan and a gate, added to its input.

B sequences of L tokens of E features; C channels inside, each with N states; the step sizes come
from R features.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "L": 24, "E": 24, "C": 48, "N": 8, "R": 6},
    "odd": {"B": 2, "L": 29, "E": 22, "C": 37, "N": 5, "R": 3},
    "perf": {"B": 1, "L": 1024, "E": 512, "C": 1024, "N": 16, "R": 32},
}
INPUTS = {"x": "float32[B, L, E]"}
PARAMETERS = {
    "gain": "float32[E] gain",
    "in_weight": "float32[E, 2 * C] weight",
    "conv_weight": "float32[C, 1, 4] weight_out_in",
    "conv_bias": "float32[C] bias",
    "select_weight": "float32[C, R + 2 * N] weight",
    "step_weight": "float32[R, C] weight",
    "step_bias": "float32[C] bias",
    "A": "float32[C, N] state_decay",
    "D": "float32[C]",
    "out_weight": "float32[C, E] weight",
}
OUTPUTS = {"y": "float32[B, L, E]"}
TOLERANCE = "F4"
EPS = 1e-6
KERNEL_SIZE = 4


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, E: int, C: int, N: int, R: int) -> None:
        super().__init__()
        self.num_channels = C
        self.select_sizes = [R, N, N]
        self.gain = _parameter(E)
        self.in_weight = _parameter(E, 2 * C)
        self.conv_weight = _parameter(C, 1, 4)
        self.conv_bias = _parameter(C)
        self.select_weight = _parameter(C, R + 2 * N)
        self.step_weight = _parameter(R, C)
        self.step_bias = _parameter(C)
        self.A = _parameter(C, N)
        self.D = _parameter(C)
        self.out_weight = _parameter(C, E)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.rms_norm(x, x.shape[-1:], self.gain, eps=EPS)
        channels, gate = (hidden @ self.in_weight).chunk(2, dim=-1)
        channels = F.silu(self._convolve(channels))
        scanned = self._scan(channels)
        return x + (scanned * F.silu(gate)) @ self.out_weight

    def _convolve(self, channels: torch.Tensor) -> torch.Tensor:
        padded = F.pad(channels.transpose(1, 2), (KERNEL_SIZE - 1, 0))
        convolved = F.conv1d(padded, self.conv_weight, self.conv_bias, groups=self.num_channels)
        return convolved.transpose(1, 2)

    def _scan(self, channels: torch.Tensor) -> torch.Tensor:
        """Run the recurrence state = decay * state + drive of each channel's states (B, C, N)."""
        selected = channels @ self.select_weight
        step, write, read = selected.split(self.select_sizes, dim=-1)
        step = F.softplus(step @ self.step_weight + self.step_bias)
        decay = torch.exp(step.unsqueeze(-1) * self.A)
        drive = (step * channels).unsqueeze(-1) * write.unsqueeze(2)

        state = torch.zeros_like(drive[:, 0])
        states = []
        for token_decay, token_drive in zip(decay.unbind(1), drive.unbind(1), strict=True):
            state = token_decay * state + token_drive
            states.append(state)
        return (torch.stack(states, dim=1) * read.unsqueeze(2)).sum(dim=-1) + channels * self.D
