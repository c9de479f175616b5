"""The end of a language model: logits of the last hidden state, cut to a top-k and top-p choice.

Gives the K most likely tokens of each of B rows and their probabilities at a temperature; those
after the first TOP_P of the mass have none. D features, V tokens.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 3, "D": 48, "V": 300, "K": 16},
    "odd": {"B": 5, "D": 37, "V": 251, "K": 13},
    "perf": {"B": 16, "D": 1024, "V": 32000, "K": 64},
}
INPUTS = {"x": "float32[B, D]"}
PARAMETERS = {
    "gain": "float32[D] gain",
    "head_weight": "float32[D, V] weight",
}
OUTPUTS = {
    "probabilities": "float32[B, K]",
    "tokens": "int32[B, K]",
}
TOLERANCE = "IX"
EPS = 1e-6
TEMPERATURE = 0.7
TOP_P = 0.9


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, D: int, V: int, K: int) -> None:
        super().__init__()
        self.num_kept = K
        self.gain = _parameter(D)
        self.head_weight = _parameter(D, V)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = F.rms_norm(x, x.shape[-1:], self.gain, eps=EPS)
        logits = (hidden @ self.head_weight) / TEMPERATURE
        top_logits, tokens = torch.topk(logits, self.num_kept, dim=-1)

        probabilities = F.softmax(top_logits, dim=-1)
        mass_before = probabilities.cumsum(dim=-1) - probabilities
        nucleus = probabilities.masked_fill(mass_before >= TOP_P, 0.0)
        return nucleus / nucleus.sum(dim=-1, keepdim=True), tokens.to(torch.int32)
