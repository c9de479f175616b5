"""A linear layer with bias and GELU, in bfloat16."""

import torch
from torch import nn
from torch.nn import functional

DTYPE = "bfloat16"
TOKENS, FEATURES, HIDDEN = 512, 768, 1024


class Model(nn.Module):
    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.gelu(self.linear(x))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(TOKENS, FEATURES)]


def get_init_inputs() -> list[int]:
    return [FEATURES, HIDDEN]
