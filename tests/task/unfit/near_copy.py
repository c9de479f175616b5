"""The input, changed by a few times the tolerance.

Finding: copy
"""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return x + 1e-4 * torch.tanh(x)


def inputs() -> list[torch.Tensor]:
    return [torch.randn(40, 96)]
