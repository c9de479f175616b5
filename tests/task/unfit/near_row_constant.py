"""Rows that are nearly their own mean.

Finding: constant
"""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return x.mean(-1, keepdim=True).exp() + 4e-5 * x


def inputs() -> list[torch.Tensor]:
    return [torch.randn(40, 96)]
