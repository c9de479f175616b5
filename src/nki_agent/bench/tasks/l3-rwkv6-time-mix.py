"""RWKV-6's time mixing: a matrix state per head that decays by factors made of each token.

Each token is mixed with the one before it; the current token reads the state with a bonus. B
sequences of L tokens; E features in H heads.
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
    "mix": "float32[E] unit",
    "read_weight": "float32[E, E] weight",
    "key_weight": "float32[E, E] weight",
    "value_weight": "float32[E, E] weight",
    "decay_weight": "float32[E, E] weight",
    "decay_bias": "float32[E]",
    "bonus": "float32[H, E // H]",
    "gain": "float32[E] gain",
    "out_weight": "float32[E, E] weight",
}
OUTPUTS = {"y": "float32[B, L, E]"}
TOLERANCE = "F4"
EPS = 1e-6
DECAY_OFFSET = 2.0


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, E: int, H: int) -> None:
        super().__init__()
        self.num_heads = H
        self.mix = _parameter(E)
        self.read_weight = _parameter(E, E)
        self.key_weight = _parameter(E, E)
        self.value_weight = _parameter(E, E)
        self.decay_weight = _parameter(E, E)
        self.decay_bias = _parameter(E)
        self.bonus = _parameter(H, E // H)
        self.gain = _parameter(E)
        self.out_weight = _parameter(E, E)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        previous = F.pad(x, (0, 0, 1, 0))[:, :-1]
        mixed = torch.lerp(x, previous, self.mix)
        decay = torch.exp(-torch.exp(mixed @ self.decay_weight + self.decay_bias - DECAY_OFFSET))
        merged = self._recur(
            self._split_heads(mixed @ self.read_weight),
            self._split_heads(mixed @ self.key_weight),
            self._split_heads(mixed @ self.value_weight),
            self._split_heads(decay),
        )
        return F.rms_norm(merged, merged.shape[-1:], self.gain, eps=EPS) @ self.out_weight

    def _recur(
        self, read: torch.Tensor, key: torch.Tensor, value: torch.Tensor, decay: torch.Tensor
    ) -> torch.Tensor:
        """Step through the tokens of (B, L, H, D) tensors with a state (B, H, D, D)."""
        bonus = self.bonus.unsqueeze(-1)
        written = key.unsqueeze(-1) * value.unsqueeze(-2)
        state = torch.zeros_like(written[:, 0])
        seen = []
        for token_written, token_decay in zip(written.unbind(1), decay.unbind(1), strict=True):
            seen.append(state + bonus * token_written)
            state = state * token_decay.unsqueeze(-1) + token_written
        outputs = (read.unsqueeze(-1) * torch.stack(seen, dim=1)).sum(dim=-2)
        return outputs.flatten(2)

    def _split_heads(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.unflatten(-1, (self.num_heads, -1))
