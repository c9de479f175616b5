"""Griffin's recurrent block: a real-gated linear recurrent unit after a causal convolution.

It follows an RMS norm, is gated by a GELU branch, and added to the input. B sequences of L tokens
of E features; C channels inside.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "L": 32, "E": 32, "C": 32},
    "odd": {"B": 2, "L": 29, "E": 37, "C": 45},
    "perf": {"B": 1, "L": 1024, "E": 512, "C": 512},
}
INPUTS = {"x": "float32[B, L, E]"}
PARAMETERS = {
    "gain": "float32[E] gain",
    "in_weight": "float32[E, C] weight",
    "gate_weight": "float32[E, C] weight",
    "conv_weight": "float32[C, 1, 4] weight_out_in",
    "recurrence_gate_weight": "float32[C, C] weight",
    "input_gate_weight": "float32[C, C] weight",
    "decay_logit": "float32[C]",
    "out_weight": "float32[C, E] weight",
}
OUTPUTS = {"y": "float32[B, L, E]"}
TOLERANCE = "F4"
NORM_EPS = 1e-6
ROOT_EPS = 1e-6
DECAY_POWER = 8.0
KERNEL_SIZE = 4


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, E: int, C: int) -> None:
        super().__init__()
        self.num_channels = C
        self.gain = _parameter(E)
        self.in_weight = _parameter(E, C)
        self.gate_weight = _parameter(E, C)
        self.conv_weight = _parameter(C, 1, 4)
        self.recurrence_gate_weight = _parameter(C, C)
        self.input_gate_weight = _parameter(C, C)
        self.decay_logit = _parameter(C)
        self.out_weight = _parameter(C, E)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.rms_norm(x, x.shape[-1:], self.gain, eps=NORM_EPS)
        states = self._recur(self._convolve(hidden @ self.in_weight))
        gate = F.gelu(hidden @ self.gate_weight, approximate="tanh")
        return x + (states * gate) @ self.out_weight

    def _convolve(self, channels: torch.Tensor) -> torch.Tensor:
        padded = F.pad(channels.transpose(1, 2), (KERNEL_SIZE - 1, 0))
        return F.conv1d(padded, self.conv_weight, groups=self.num_channels).transpose(1, 2)

    def _recur(self, channels: torch.Tensor) -> torch.Tensor:
        """Run state = decay * state + sqrt(1 - decay^2) * gated input of each channel."""
        recurrence_gate = torch.sigmoid(channels @ self.recurrence_gate_weight)
        input_gate = torch.sigmoid(channels @ self.input_gate_weight)
        decay = torch.exp(-DECAY_POWER * F.softplus(self.decay_logit) * recurrence_gate)
        drive = torch.sqrt(1.0 - decay * decay + ROOT_EPS) * input_gate * channels

        state = torch.zeros_like(drive[:, 0])
        states = []
        for token_decay, token_drive in zip(decay.unbind(1), drive.unbind(1), strict=True):
            state = token_decay * state + token_drive
            states.append(state)
        return torch.stack(states, dim=1)
