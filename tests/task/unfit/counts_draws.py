"""A value that depends on what ran before.

Finding: repeats
"""

import torch

SEEN: set[float] = set()


def reference(x: torch.Tensor) -> torch.Tensor:
    SEEN.add(float(x.sum()))
    return torch.exp(x) * (1 + 1e-8 * len(SEEN))


def inputs() -> list[torch.Tensor]:
    return [torch.randn(40, 96)]
