"""Outputs that vary by a few times the tolerance.

Finding: constant
"""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return 1 + 1e-4 * x


def inputs() -> list[torch.Tensor]:
    return [torch.randn(40, 96)]
