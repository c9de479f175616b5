"""Swin's shifted-window self-attention in bfloat16, after a layer norm and added to its input.

The image is rolled by SHIFT pixels and cut into windows of Z x Z, in which pixels attend to each
other. B images of H x W pixels; E features in N heads.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "H": 14, "W": 14, "E": 24, "N": 3, "Z": 7},
    "odd": {"B": 2, "H": 15, "W": 20, "E": 28, "N": 4, "Z": 5},
    "perf": {"B": 4, "H": 56, "W": 56, "E": 96, "N": 3, "Z": 7},
}
INPUTS = {"x": "bfloat16[B, H, W, E]"}
PARAMETERS = {
    "gain": "bfloat16[E] gain",
    "bias": "bfloat16[E] bias",
    "qkv_weight": "bfloat16[E, 3 * E] weight",
    "position_bias": "bfloat16[N, Z * Z, Z * Z]",
    "out_weight": "bfloat16[E, E] weight",
}
OUTPUTS = {"y": "bfloat16[B, H, W, E]"}
TOLERANCE = "B3"
SHIFT = 3


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.bfloat16))


class Model(nn.Module):
    def __init__(self, E: int, N: int, Z: int) -> None:
        super().__init__()
        self.num_heads = N
        self.window = Z
        self.gain = _parameter(E)
        self.bias = _parameter(E)
        self.qkv_weight = _parameter(E, 3 * E)
        self.position_bias = _parameter(N, Z * Z, Z * Z)
        self.out_weight = _parameter(E, E)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.layer_norm(x, x.shape[-1:], self.gain, self.bias)
        hidden = hidden.roll((-SHIFT, -SHIFT), dims=(1, 2))
        attended = self._merge_windows(self._attend(self._cut_windows(hidden)), x.shape)
        return x + attended.roll((SHIFT, SHIFT), dims=(1, 2))

    def _attend(self, windows: torch.Tensor) -> torch.Tensor:
        qkv = (windows @ self.qkv_weight).chunk(3, dim=-1)
        query, key, value = (
            part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in qkv
        )
        attended = F.scaled_dot_product_attention(
            query, key, value, attn_mask=self.position_bias[None]
        )
        return attended.transpose(1, 2).flatten(2) @ self.out_weight

    def _cut_windows(self, image: torch.Tensor) -> torch.Tensor:
        """From (B, H, W, E) to (number of windows, pixels of one, E)."""
        size = self.window
        rows = image.unflatten(2, (-1, size)).unflatten(1, (-1, size))
        return rows.transpose(2, 3).flatten(3, 4).flatten(0, 2).flatten(1, -2)

    def _merge_windows(self, windows: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        """Undo `_cut_windows`, to the shape (B, H, W, E)."""
        batch, height, width, features = shape
        size = self.window
        grid = windows.reshape(batch, height // size, width // size, size, size, features)
        return grid.transpose(2, 3).reshape(shape)
