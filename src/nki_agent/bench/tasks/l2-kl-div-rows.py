"""Kullback-Leibler divergence of two rows of logits, in float32: how far b is from the target a."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"M": 130, "V": 300},
    "odd": {"M": 77, "V": 451},
    "perf": {"M": 2048, "V": 8192},
}
INPUTS = {"target_logits": "float32[M, V]", "logits": "float32[M, V]"}
OUTPUTS = {"y": "float32[M]"}
TOLERANCE = "F3"


class Model(nn.Module):
    def forward(self, target_logits: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        log_target = F.log_softmax(target_logits, dim=-1)
        log_p = F.log_softmax(logits, dim=-1)
        return F.kl_div(log_p, log_target, reduction="none", log_target=True).sum(dim=-1)
