"""A tensor of the file that no kernel is given.

Finding: hidden
"""

import torch

TABLE = torch.linspace(0, 1, 96)


def reference(x: torch.Tensor) -> torch.Tensor:
    return x + TABLE


def inputs() -> list[torch.Tensor]:
    return [torch.randn(40, 96)]
