"""An input that the reference changes.

Finding: mutates
"""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    return torch.exp(x)


def inputs() -> list[torch.Tensor]:
    return [torch.randn(40, 96)]
