"""A function that is flat on nearly all inputs.

Finding: saturated
"""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(200 * x)


def inputs() -> list[torch.Tensor]:
    return [torch.randn(40, 96)]
