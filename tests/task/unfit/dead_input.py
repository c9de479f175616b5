"""An input that is multiplied by zero.

Finding: input
"""

import torch


def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * 2 + 0 * y


def inputs() -> list[torch.Tensor]:
    return [torch.randn(40, 96), torch.randn(40, 96)]
