"""A Qwen3 mixture-of-experts layer: RMS norm, then four of E SwiGLU experts per token.

The four largest router probabilities of a token, made to sum to one, weigh its experts; the sum is
added to the input. T tokens of D features, H hidden features per expert.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"T": 40, "D": 64, "E": 8, "H": 32},
    "odd": {"T": 67, "D": 50, "E": 11, "H": 29},
    "perf": {"T": 512, "D": 1024, "E": 16, "H": 512},
}
INPUTS = {"x": "float32[T, D]"}
PARAMETERS = {
    "gain": "float32[D] gain",
    "router_weight": "float32[D, E] weight",
    "gate_weight": "float32[E, D, H] weight",
    "up_weight": "float32[E, D, H] weight",
    "down_weight": "float32[E, H, D] weight",
}
OUTPUTS = {"y": "float32[T, D]"}
TOLERANCE = "F3"
# The reference runs every expert on every token; a kernel needs four each.
MATMUL_FLOPS = "2 * T * D * E + 4 * T * 6 * D * H"
EPS = 1e-6
NUM_CHOSEN = 4


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, D: int, E: int, H: int) -> None:
        super().__init__()
        self.gain = _parameter(D)
        self.router_weight = _parameter(D, E)
        self.gate_weight = _parameter(E, D, H)
        self.up_weight = _parameter(E, D, H)
        self.down_weight = _parameter(E, H, D)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.rms_norm(x, x.shape[-1:], self.gain, eps=EPS)
        probabilities = F.softmax(hidden @ self.router_weight, dim=-1)
        chosen_share, chosen = torch.topk(probabilities, NUM_CHOSEN, dim=-1)
        chosen_share = chosen_share / chosen_share.sum(dim=-1, keepdim=True)
        share = torch.zeros_like(probabilities).scatter(-1, chosen, chosen_share)
        return x + self._mix_experts(hidden, share)

    def _mix_experts(self, hidden: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        """Sum the experts' outputs by each token's shares (T, E), most of which are zero."""
        gated = F.silu(hidden @ self.gate_weight) * (hidden @ self.up_weight)
        outputs = gated @ self.down_weight
        return (share.T.unsqueeze(-1) * outputs).sum(dim=0)
