"""A sum and a mean that is far too small to be seen beside it, in one output.

Finding: slice
"""

import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x.sum(-1), (x * x).mean(-1) * 1e-5], dim=-1)


def inputs() -> list[torch.Tensor]:
    return [torch.randn(40, 96)]
