"""A gpt-oss mixture of experts in bfloat16: two of E experts per token, with a clamped SwiGLU.

The two largest router logits of a token, after a softmax, weigh its experts. T tokens of D
features, H hidden features per expert; the first H columns of the up projection are the gate.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"T": 32, "D": 64, "E": 4, "H": 48},
    "odd": {"T": 67, "D": 50, "E": 7, "H": 37},
    "perf": {"T": 256, "D": 1024, "E": 8, "H": 1024},
}
INPUTS = {"x": "bfloat16[T, D]"}
PARAMETERS = {
    "router_weight": "bfloat16[D, E] weight",
    "router_bias": "bfloat16[E] bias",
    "up_weight": "bfloat16[E, D, 2 * H] weight",
    "up_bias": "bfloat16[E, 2 * H] bias",
    "down_weight": "bfloat16[E, H, D] weight",
    "down_bias": "bfloat16[E, D] bias",
}
OUTPUTS = {"y": "bfloat16[T, D]"}
TOLERANCE = "B3"
# The reference runs every expert on every token; a kernel needs two each.
MATMUL_FLOPS = "2 * T * D * E + 2 * T * 6 * D * H"
NUM_CHOSEN = 2
LIMIT = 3.0
SIGMOID_SLOPE = 1.702


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.bfloat16))


class Model(nn.Module):
    def __init__(self, D: int, E: int, H: int) -> None:
        super().__init__()
        self.router_weight = _parameter(D, E)
        self.router_bias = _parameter(E)
        self.up_weight = _parameter(E, D, 2 * H)
        self.up_bias = _parameter(E, 2 * H)
        self.down_weight = _parameter(E, H, D)
        self.down_bias = _parameter(E, D)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # The router is in float32: rounded logits would send a token to other experts.
        logits = x.float() @ self.router_weight.float() + self.router_bias
        chosen_logits, chosen = torch.topk(logits, NUM_CHOSEN, dim=-1)
        chosen_share = F.softmax(chosen_logits, dim=-1)
        share = torch.zeros_like(logits).scatter(-1, chosen, chosen_share)
        share = share.to(x.dtype)
        return (share.T.unsqueeze(-1) * self._run_experts(x)).sum(dim=0)

    def _run_experts(self, x: torch.Tensor) -> torch.Tensor:
        """Outputs of all experts on all tokens, (E, T, D)."""
        gate, linear = (x @ self.up_weight + self.up_bias.unsqueeze(1)).chunk(2, dim=-1)
        gate = gate.clamp(max=LIMIT)
        linear = linear.clamp(-LIMIT, LIMIT)
        hidden = gate * torch.sigmoid(SIGMOID_SLOPE * gate) * (linear + 1.0)
        return hidden @ self.down_weight + self.down_bias.unsqueeze(1)
