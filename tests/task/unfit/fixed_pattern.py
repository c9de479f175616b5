"""A pattern that all seeds share, and a trace of the input.

Finding: stale
"""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.linspace(0, 1, 96).expand(40, 96) + 4e-5 * x


def inputs() -> list[torch.Tensor]:
    return [torch.randn(40, 96)]
