"""A value that differs from process to process.

Finding: repeats
"""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return x * (1 + hash("scale") % 1000 / 1000)


def inputs() -> list[torch.Tensor]:
    return [torch.randn(40, 96)]
