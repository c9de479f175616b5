"""RMSNorm over the last axis, as in Llama."""

import torch
from torch import nn

TOKENS, FEATURES = 1000, 768


class Model(nn.Module):
    def __init__(self, features: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(mean_square + self.eps) * self.weight


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(TOKENS, FEATURES)]


def get_init_inputs() -> list[int]:
    return [FEATURES]
