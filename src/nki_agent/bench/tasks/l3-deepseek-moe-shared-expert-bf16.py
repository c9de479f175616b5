"""A DeepSeek mixture-of-experts layer in bfloat16: four of E SwiGLU experts and a shared one.

Sigmoid router scores plus a correction per expert choose a token's experts; the scores alone weigh
them. All is added to the input. T tokens of D features, H hidden features per expert.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"T": 40, "D": 64, "E": 8, "H": 32},
    "odd": {"T": 67, "D": 50, "E": 11, "H": 29},
    "perf": {"T": 512, "D": 1024, "E": 16, "H": 512},
}
INPUTS = {"x": "bfloat16[T, D]"}
PARAMETERS = {
    "router_weight": "bfloat16[D, E] weight",
    "router_correction": "bfloat16[E] small",
    "gate_weight": "bfloat16[E, D, H] weight",
    "up_weight": "bfloat16[E, D, H] weight",
    "down_weight": "bfloat16[E, H, D] weight",
    "shared_gate_weight": "bfloat16[D, H] weight",
    "shared_up_weight": "bfloat16[D, H] weight",
    "shared_down_weight": "bfloat16[H, D] weight",
}
OUTPUTS = {"y": "bfloat16[T, D]"}
TOLERANCE = "B3"
# The reference runs every expert on every token; a kernel needs four each and the shared one.
MATMUL_FLOPS = "2 * T * D * E + 5 * T * 6 * D * H"
NUM_CHOSEN = 4
SHARE_SCALE = 2.5


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.bfloat16))


class Model(nn.Module):
    def __init__(self, D: int, E: int, H: int) -> None:
        super().__init__()
        self.router_weight = _parameter(D, E)
        self.router_correction = _parameter(E)
        self.gate_weight = _parameter(E, D, H)
        self.up_weight = _parameter(E, D, H)
        self.down_weight = _parameter(E, H, D)
        self.shared_gate_weight = _parameter(D, H)
        self.shared_up_weight = _parameter(D, H)
        self.shared_down_weight = _parameter(H, D)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # The router is in float32: rounded scores would send a token to other experts.
        scores = torch.sigmoid(x.float() @ self.router_weight.float())
        _, chosen = torch.topk(scores + self.router_correction, NUM_CHOSEN, dim=-1)
        chosen_scores = scores.gather(-1, chosen)
        chosen_share = SHARE_SCALE * chosen_scores / chosen_scores.sum(dim=-1, keepdim=True)
        share = torch.zeros_like(scores).scatter(-1, chosen, chosen_share)
        return x + self._mix_experts(x, share.to(x.dtype)) + self._run_shared_expert(x)

    def _mix_experts(self, x: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        """Sum the experts' outputs by each token's shares (T, E), most of which are zero."""
        gated = F.silu(x @ self.gate_weight) * (x @ self.up_weight)
        outputs = gated @ self.down_weight
        return (share.T.unsqueeze(-1) * outputs).sum(dim=0)

    def _run_shared_expert(self, x: torch.Tensor) -> torch.Tensor:
        gated = F.silu(x @ self.shared_gate_weight) * (x @ self.shared_up_weight)
        return gated @ self.shared_down_weight
