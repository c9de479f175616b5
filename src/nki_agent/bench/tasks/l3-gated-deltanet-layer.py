"""A gated DeltaNet layer: a matrix state per head that decays and is corrected by the delta rule.

Each token replaces a share of what the state answers to its key by its value. B sequences of
L tokens; E features in H heads.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "L": 24, "E": 32, "H": 4},
    "odd": {"B": 2, "L": 29, "E": 55, "H": 5},
    "perf": {"B": 1, "L": 256, "E": 512, "H": 8},
}
INPUTS = {"x": "float32[B, L, E]"}
PARAMETERS = {
    "query_weight": "float32[E, E] weight",
    "key_weight": "float32[E, E] weight",
    "value_weight": "float32[E, E] weight",
    "share_weight": "float32[E, H] weight",
    "decay_weight": "float32[E, H] weight",
    "gain": "float32[E] gain",
    "out_weight": "float32[E, E] weight",
}
OUTPUTS = {"y": "float32[B, L, E]"}
TOLERANCE = "F4"
EPS = 1e-6


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


def _unit_length(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).sum(dim=-1, keepdim=True) + EPS)


class Model(nn.Module):
    def __init__(self, E: int, H: int) -> None:
        super().__init__()
        self.num_heads = H
        self.query_weight = _parameter(E, E)
        self.key_weight = _parameter(E, E)
        self.value_weight = _parameter(E, E)
        self.share_weight = _parameter(E, H)
        self.decay_weight = _parameter(E, H)
        self.gain = _parameter(E)
        self.out_weight = _parameter(E, E)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query = _unit_length(self._split_heads(F.silu(x @ self.query_weight)))
        key = _unit_length(self._split_heads(F.silu(x @ self.key_weight)))
        value = self._split_heads(x @ self.value_weight)
        share = torch.sigmoid(x @ self.share_weight)
        decay = torch.exp(-F.softplus(x @ self.decay_weight))

        head_dim = query.shape[-1]
        state = x.new_zeros(x.shape[0], self.num_heads, head_dim, head_dim)
        outputs = []
        for token in range(x.shape[1]):
            token_key = key[:, token].unsqueeze(-1)
            state = state * decay[:, token, :, None, None]
            error = value[:, token].unsqueeze(-1) - state @ token_key
            correction = share[:, token, :, None, None] * error
            state = state + correction * token_key.transpose(-1, -2)
            outputs.append(state @ query[:, token].unsqueeze(-1))

        merged = torch.stack(outputs, dim=1).flatten(2)
        return F.rms_norm(merged, merged.shape[-1:], self.gain, eps=EPS) @ self.out_weight

    def _split_heads(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.unflatten(-1, (self.num_heads, -1))
