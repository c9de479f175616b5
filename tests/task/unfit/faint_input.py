"""An input far below the tolerance.

Finding: input
"""

import torch


def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.exp(x) + 1e-9 * y


def inputs() -> list[torch.Tensor]:
    return [torch.randn(40, 96), torch.randn(40, 96)]
