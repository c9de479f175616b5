"""A spatial transformer of Stable Diffusion in bfloat16: pixels attend to a text, then a GeGLU MLP.

The image is group-normed, handled as a sequence of pixels, and added to the result. B images of
C channels in N heads and H x W pixels; U text tokens of X features.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "C": 32, "H": 6, "W": 6, "N": 4, "U": 9, "X": 24},
    "odd": {"B": 2, "C": 40, "H": 7, "W": 9, "N": 5, "U": 11, "X": 29},
    "perf": {"B": 1, "C": 320, "H": 32, "W": 32, "N": 8, "U": 77, "X": 768},
}
INPUTS = {
    "x": "bfloat16[B, C, H, W]",
    "text": "bfloat16[B, U, X]",
}
PARAMETERS = {
    "norm_gain": "bfloat16[C] gain",
    "norm_bias": "bfloat16[C] bias",
    "query_weight": "bfloat16[C, C] weight",
    "key_weight": "bfloat16[X, C] weight",
    "value_weight": "bfloat16[X, C] weight",
    "out_weight": "bfloat16[C, C] weight",
    "up_weight": "bfloat16[C, 8 * C] weight",
    "down_weight": "bfloat16[4 * C, C] weight",
}
OUTPUTS = {"y": "bfloat16[B, C, H, W]"}
TOLERANCE = "B3"
NUM_GROUPS = 8


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.bfloat16))


class Model(nn.Module):
    def __init__(self, C: int, N: int, X: int) -> None:
        super().__init__()
        self.num_heads = N
        self.norm_gain = _parameter(C)
        self.norm_bias = _parameter(C)
        self.query_weight = _parameter(C, C)
        self.key_weight = _parameter(X, C)
        self.value_weight = _parameter(X, C)
        self.out_weight = _parameter(C, C)
        self.up_weight = _parameter(C, 8 * C)
        self.down_weight = _parameter(4 * C, C)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        normed = F.group_norm(x, NUM_GROUPS, self.norm_gain, self.norm_bias)
        pixels = normed.flatten(2).transpose(1, 2)
        pixels = pixels + self._attend(pixels, text)

        hidden = F.layer_norm(pixels, pixels.shape[-1:]) @ self.up_weight
        linear, gate = hidden.chunk(2, dim=-1)
        pixels = pixels + (linear * F.gelu(gate)) @ self.down_weight
        return x + pixels.transpose(1, 2).reshape(x.shape)

    def _attend(self, pixels: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        query = self._split_heads(pixels @ self.query_weight)
        key = self._split_heads(text @ self.key_weight)
        value = self._split_heads(text @ self.value_weight)
        attended = F.scaled_dot_product_attention(query, key, value)
        return attended.transpose(1, 2).flatten(2) @ self.out_weight

    def _split_heads(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
