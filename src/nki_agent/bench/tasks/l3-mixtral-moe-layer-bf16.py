"""A Mixtral mixture-of-experts layer in bfloat16: RMS norm, two of E SwiGLU experts per token.

The two largest router logits of a token, after a softmax, weigh its experts; the sum is added to
the input. T tokens of D features, H hidden features per expert.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"T": 40, "D": 64, "E": 4, "H": 48},
    "odd": {"T": 67, "D": 50, "E": 7, "H": 37},
    "perf": {"T": 512, "D": 1024, "E": 8, "H": 2048},
}
INPUTS = {"x": "bfloat16[T, D]"}
PARAMETERS = {
    "gain": "bfloat16[D] gain",
    "router_weight": "bfloat16[D, E] weight",
    "gate_weight": "bfloat16[E, D, H] weight",
    "up_weight": "bfloat16[E, D, H] weight",
    "down_weight": "bfloat16[E, H, D] weight",
}
OUTPUTS = {"y": "bfloat16[T, D]"}
TOLERANCE = "B3"
# The reference runs every expert on every token; a kernel needs two each.
MATMUL_FLOPS = "2 * T * D * E + 2 * T * 6 * D * H"
EPS = 1e-6
NUM_CHOSEN = 2


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.bfloat16))


class Model(nn.Module):
    def __init__(self, D: int, E: int, H: int) -> None:
        super().__init__()
        self.gain = _parameter(D)
        self.router_weight = _parameter(D, E)
        self.gate_weight = _parameter(E, D, H)
        self.up_weight = _parameter(E, D, H)
        self.down_weight = _parameter(E, H, D)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # The router is in float32: rounded logits would send a token to other experts.
        normed = F.rms_norm(x.float(), x.shape[-1:], self.gain.float(), eps=EPS)
        logits = normed @ self.router_weight.float()
        chosen_logits, chosen = torch.topk(logits, NUM_CHOSEN, dim=-1)
        chosen_share = F.softmax(chosen_logits, dim=-1)
        share = torch.zeros_like(logits).scatter(-1, chosen, chosen_share)
        return x + self._mix_experts(normed.to(x.dtype), share.to(x.dtype))

    def _mix_experts(self, hidden: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        """Sum the experts' outputs by each token's shares (T, E), most of which are zero."""
        gated = F.silu(hidden @ self.gate_weight) * (hidden @ self.up_weight)
        outputs = gated @ self.down_weight
        return (share.T.unsqueeze(-1) * outputs).sum(dim=0)
