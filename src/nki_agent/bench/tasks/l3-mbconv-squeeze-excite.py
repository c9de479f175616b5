"""EfficientNet's MBConv block: expand, a 5x5 convolution per channel, squeeze and excite, project.

The squeeze averages each channel and gates it by a small MLP. Batch norms are folded into the
convolutions. B images of C channels and H x W pixels, K channels inside, R of the squeeze.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "C": 8, "K": 24, "H": 12, "W": 12, "R": 4},
    "odd": {"B": 3, "C": 10, "K": 37, "H": 7, "W": 9, "R": 5},
    "perf": {"B": 8, "C": 40, "K": 240, "H": 28, "W": 28, "R": 10},
}
INPUTS = {"x": "float32[B, C, H, W]"}
PARAMETERS = {
    "expand_weight": "float32[K, C, 1, 1] weight_out_in",
    "expand_bias": "float32[K] bias",
    "depthwise_weight": "float32[K, 1, 5, 5] weight_out_in",
    "depthwise_bias": "float32[K] bias",
    "squeeze_weight": "float32[R, K] weight_out_in",
    "squeeze_bias": "float32[R] bias",
    "excite_weight": "float32[K, R] weight_out_in",
    "excite_bias": "float32[K] bias",
    "project_weight": "float32[C, K, 1, 1] weight_out_in",
}
OUTPUTS = {"y": "float32[B, C, H, W]"}
TOLERANCE = "F3"


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, C: int, K: int, R: int) -> None:
        super().__init__()
        self.num_hidden = K
        self.expand_weight = _parameter(K, C, 1, 1)
        self.expand_bias = _parameter(K)
        self.depthwise_weight = _parameter(K, 1, 5, 5)
        self.depthwise_bias = _parameter(K)
        self.squeeze_weight = _parameter(R, K)
        self.squeeze_bias = _parameter(R)
        self.excite_weight = _parameter(K, R)
        self.excite_bias = _parameter(K)
        self.project_weight = _parameter(C, K, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.silu(F.conv2d(x, self.expand_weight, self.expand_bias))
        hidden = F.conv2d(
            hidden, self.depthwise_weight, self.depthwise_bias, padding=2, groups=self.num_hidden
        )
        hidden = F.silu(hidden)

        squeezed = F.linear(hidden.mean(dim=(2, 3)), self.squeeze_weight, self.squeeze_bias)
        excited = F.linear(F.silu(squeezed), self.excite_weight, self.excite_bias)
        hidden = hidden * torch.sigmoid(excited)[:, :, None, None]
        return x + F.conv2d(hidden, self.project_weight)
