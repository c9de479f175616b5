"""Gradients of causal attention with respect to query, key and value, from that of its output.

B sequences of S tokens, H heads of D features.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"B": 1, "H": 3, "S": 40, "D": 16},
    "odd": {"B": 2, "H": 5, "S": 67, "D": 11},
    "perf": {"B": 1, "H": 8, "S": 512, "D": 64},
}
INPUTS = {
    "query": "float32[B, H, S, D]",
    "key": "float32[B, H, S, D]",
    "value": "float32[B, H, S, D]",
    "grad_out": "float32[B, H, S, D]",
}
OUTPUTS = {
    "grad_query": "float32[B, H, S, D]",
    "grad_key": "float32[B, H, S, D]",
    "grad_value": "float32[B, H, S, D]",
}
TOLERANCE = "F3"
# A query needs the keys up to its own.
MATMUL_FLOPS = "5 * B * H * D * S * (S + 1)"


class Model(nn.Module):
    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        grad_out: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        num_tokens, head_dim = query.shape[-2:]
        scale = head_dim**-0.5
        is_future = torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=query.device).triu(
            diagonal=1
        )
        scores = (query @ key.transpose(-1, -2)) * scale
        weights = F.softmax(scores.masked_fill(is_future, float("-inf")), dim=-1)

        grad_value = weights.transpose(-1, -2) @ grad_out
        grad_weights = grad_out @ value.transpose(-1, -2)
        mean = (weights * grad_weights).sum(dim=-1, keepdim=True)
        grad_scores = weights * (grad_weights - mean) * scale
        grad_query = grad_scores @ key
        grad_key = grad_scores.transpose(-1, -2) @ query
        return grad_query, grad_key, grad_value
