"""Projection to queries, keys and values of H heads in bfloat16; queries and keys are then rotated.

The rotary embedding rotates the two halves of each head against each other, in float32.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"B": 1, "S": 65, "E": 96, "H": 3, "D": 32},
    "odd": {"B": 2, "S": 37, "E": 115, "H": 5, "D": 26},
    "perf": {"B": 1, "S": 2048, "E": 2048, "H": 16, "D": 128},
}
INPUTS = {
    "x": "bfloat16[B, S, E]",
    "cosine": "float32[S, D // 2] cosine",
    "sine": "float32[S, D // 2] sine",
}
PARAMETERS = {"weight": "bfloat16[E, 3 * H * D] weight"}
OUTPUTS = {
    "q": "bfloat16[B, H, S, D]",
    "k": "bfloat16[B, H, S, D]",
    "v": "bfloat16[B, H, S, D]",
}
TOLERANCE = "B2"


def _rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    first, second = x.float().chunk(2, dim=-1)
    rotated = torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
    return rotated.to(torch.bfloat16)


class Model(nn.Module):
    def __init__(self, E: int, H: int, D: int) -> None:
        super().__init__()
        self.num_heads = H
        self.weight = nn.Parameter(torch.empty(E, 3 * H * D, dtype=torch.bfloat16))

    def forward(
        self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        q, k, v = (self._split_heads(part) for part in (x @ self.weight).chunk(3, dim=-1))
        return _rotate(q, cosine, sine), _rotate(k, cosine, sine), v

    def _split_heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
