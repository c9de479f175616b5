"""RetNet's multi-scale retention: causal attention without softmax, weighed by powers of a decay.

Each head has its own decay; an RMS norm and a SiLU gate follow. B sequences of S tokens; E features
in H heads.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "S": 32, "E": 32, "H": 4},
    "odd": {"B": 2, "S": 29, "E": 55, "H": 5},
    "perf": {"B": 1, "S": 512, "E": 512, "H": 8},
}
INPUTS = {"x": "float32[B, S, E]"}
PARAMETERS = {
    "query_weight": "float32[E, E] weight",
    "key_weight": "float32[E, E] weight",
    "value_weight": "float32[E, E] weight",
    "gate_weight": "float32[E, E] weight",
    "out_weight": "float32[E, E] weight",
    "head_decay": "float32[H] decay",
    "gain": "float32[E] gain",
}
OUTPUTS = {"y": "float32[B, S, E]"}
TOLERANCE = "F4"
# Kept as a state a head, which each token reads and adds to.
MATMUL_FLOPS = "10 * B * S * E * E + 4 * B * S * E * (E // H)"
EPS = 1e-6


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, E: int, H: int) -> None:
        super().__init__()
        self.num_heads = H
        self.query_weight = _parameter(E, E)
        self.key_weight = _parameter(E, E)
        self.value_weight = _parameter(E, E)
        self.gate_weight = _parameter(E, E)
        self.out_weight = _parameter(E, E)
        self.head_decay = _parameter(H)
        self.gain = _parameter(E)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query = self._split_heads(x @ self.query_weight)
        key = self._split_heads(x @ self.key_weight)
        value = self._split_heads(x @ self.value_weight)
        scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
        retained = (scores * self._decay_by_distance(x.shape[1])) @ value

        merged = retained.transpose(1, 2).flatten(2)
        normed = F.rms_norm(merged, merged.shape[-1:], self.gain, eps=EPS)
        return (normed * F.silu(x @ self.gate_weight)) @ self.out_weight

    def _decay_by_distance(self, num_tokens: int) -> torch.Tensor:
        """Weights (H, S, S): each head's decay to the power of the distance, 0 for the future."""
        position = torch.arange(num_tokens, device=self.head_decay.device)
        distance = position[:, None] - position
        powers = self.head_decay[:, None, None] ** distance.clamp(min=0)
        return powers.masked_fill(distance < 0, 0.0)

    def _split_heads(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
