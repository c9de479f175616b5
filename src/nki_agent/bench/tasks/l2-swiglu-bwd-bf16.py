"""Backward pass of SwiGLU (SiLU of the gate times up), in bfloat16: gradients of gate and up."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 130, "N": 300},
    "odd": {"M": 101, "N": 383},
    "perf": {"M": 4096, "N": 4096},
}
INPUTS = {"grad_y": "bfloat16[M, N]", "gate": "bfloat16[M, N]", "up": "bfloat16[M, N]"}
OUTPUTS = {"grad_gate": "bfloat16[M, N]", "grad_up": "bfloat16[M, N]"}
TOLERANCE = "B1"


class Model(nn.Module):
    def forward(
        self, grad_y: torch.Tensor, gate: torch.Tensor, up: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        # In float32 inside: roundings of five factors to bfloat16 would add up.
        grad_y, gate, up = (t.float() for t in (grad_y, gate, up))
        sigmoid = torch.sigmoid(gate)
        grad_gate = grad_y * up * sigmoid * (1 + gate * (1 - sigmoid))
        grad_up = grad_y * gate * sigmoid
        return grad_gate.to(torch.bfloat16), grad_up.to(torch.bfloat16)
