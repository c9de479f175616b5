"""A chain in bfloat16 under a class for one operation.

Finding: noise
"""

import torch

DTYPE = "bfloat16"
TOLERANCE = "B1"


def reference(x: torch.Tensor) -> torch.Tensor:
    for _ in range(30):
        x = torch.sin(3 * x)
    return x


def inputs() -> list[torch.Tensor]:
    return [torch.randn(40, 96)]
