"""CLIP's contrastive loss: images and texts projected to unit length, then matched both ways.

Gives the loss of each of B pairs, the mean of both directions. D features, K of the projections.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"B": 40, "D": 48, "K": 32},
    "odd": {"B": 67, "D": 45, "K": 29},
    "perf": {"B": 1024, "D": 768, "K": 512},
}
INPUTS = {
    "image": "float32[B, D]",
    "text": "float32[B, D]",
}
PARAMETERS = {
    "image_weight": "float32[D, K] weight",
    "text_weight": "float32[D, K] weight",
    "log_scale": "float32[1]",
}
OUTPUTS = {
    "loss": "float32[B]",
}
TOLERANCE = "F3"
EPS = 1e-12
LOG_SCALE_OFFSET = 1.0


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


def _unit_length(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).sum(dim=-1, keepdim=True) + EPS)


class Model(nn.Module):
    def __init__(self, D: int, K: int) -> None:
        super().__init__()
        self.image_weight = _parameter(D, K)
        self.text_weight = _parameter(D, K)
        self.log_scale = _parameter(1)

    def forward(self, image: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        image = _unit_length(image @ self.image_weight)
        text = _unit_length(text @ self.text_weight)
        scores = torch.exp(self.log_scale + LOG_SCALE_OFFSET) * (image @ text.T)
        over_texts = torch.logsumexp(scores, dim=1)
        over_images = torch.logsumexp(scores, dim=0)
        return 0.5 * (over_texts + over_images) - scores.diagonal()
