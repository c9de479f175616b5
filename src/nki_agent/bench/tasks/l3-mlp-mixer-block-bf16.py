"""An MLP-Mixer block in bfloat16: a GELU MLP across patches, then one across features.

Each follows a layer norm and is added to its input. B images of S patches of E features; K and
M hidden features of the two MLPs.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 2, "S": 20, "E": 48, "K": 24, "M": 96},
    "odd": {"B": 3, "S": 29, "E": 55, "K": 17, "M": 77},
    "perf": {"B": 8, "S": 196, "E": 512, "K": 256, "M": 2048},
}
INPUTS = {"x": "bfloat16[B, S, E]"}
PARAMETERS = {
    "norm1_gain": "bfloat16[E] gain",
    "norm1_bias": "bfloat16[E] bias",
    "patch_up_weight": "bfloat16[S, K] weight",
    "patch_down_weight": "bfloat16[K, S] weight",
    "norm2_gain": "bfloat16[E] gain",
    "norm2_bias": "bfloat16[E] bias",
    "feature_up_weight": "bfloat16[E, M] weight",
    "feature_down_weight": "bfloat16[M, E] weight",
}
OUTPUTS = {"y": "bfloat16[B, S, E]"}
TOLERANCE = "B3"


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.bfloat16))


class Model(nn.Module):
    def __init__(self, S: int, E: int, K: int, M: int) -> None:
        super().__init__()
        self.norm1_gain = _parameter(E)
        self.norm1_bias = _parameter(E)
        self.patch_up_weight = _parameter(S, K)
        self.patch_down_weight = _parameter(K, S)
        self.norm2_gain = _parameter(E)
        self.norm2_bias = _parameter(E)
        self.feature_up_weight = _parameter(E, M)
        self.feature_down_weight = _parameter(M, E)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.layer_norm(x, x.shape[-1:], self.norm1_gain, self.norm1_bias)
        hidden = F.gelu(hidden.transpose(1, 2) @ self.patch_up_weight) @ self.patch_down_weight
        x = x + hidden.transpose(1, 2)

        hidden = F.layer_norm(x, x.shape[-1:], self.norm2_gain, self.norm2_bias)
        return x + F.gelu(hidden @ self.feature_up_weight) @ self.feature_down_weight
