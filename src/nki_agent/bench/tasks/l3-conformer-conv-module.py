"""A Conformer's convolution module: gated linear unit, a convolution per feature, batch norm, SiLU.

It follows a layer norm and is added to its input. B sequences of L frames of E features.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "L": 30, "E": 24},
    "odd": {"B": 3, "L": 29, "E": 37},
    "perf": {"B": 16, "L": 1024, "E": 256},
}
INPUTS = {"x": "float32[B, L, E]"}
PARAMETERS = {
    "norm_gain": "float32[E] gain",
    "norm_bias": "float32[E] bias",
    "in_weight": "float32[E, 2 * E] weight",
    "conv_weight": "float32[E, 1, 15] weight_out_in",
    "batch_mean": "float32[E]",
    "batch_variance": "float32[E] variance",
    "batch_gain": "float32[E] gain",
    "batch_bias": "float32[E] bias",
    "out_weight": "float32[E, E] weight",
}
OUTPUTS = {"y": "float32[B, L, E]"}
TOLERANCE = "F3"
PADDING = 7


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, E: int) -> None:
        super().__init__()
        self.norm_gain = _parameter(E)
        self.norm_bias = _parameter(E)
        self.in_weight = _parameter(E, 2 * E)
        self.conv_weight = _parameter(E, 1, 15)
        self.batch_mean = _parameter(E)
        self.batch_variance = _parameter(E)
        self.batch_gain = _parameter(E)
        self.batch_bias = _parameter(E)
        self.out_weight = _parameter(E, E)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.layer_norm(x, x.shape[-1:], self.norm_gain, self.norm_bias)
        hidden = F.glu(hidden @ self.in_weight, dim=-1).transpose(1, 2)
        hidden = F.conv1d(hidden, self.conv_weight, padding=PADDING, groups=hidden.shape[1])
        hidden = F.batch_norm(
            hidden, self.batch_mean, self.batch_variance, self.batch_gain, self.batch_bias
        )
        return x + F.silu(hidden).transpose(1, 2) @ self.out_weight
