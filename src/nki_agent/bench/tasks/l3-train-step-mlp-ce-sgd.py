"""One training step of a two-layer ReLU classifier: cross-entropy, its gradients, and plain SGD.

Gives the loss of each of M samples and the updated parameters; gradients are of the mean loss.
K input features, H hidden features, V classes.
"""

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {
    "dev": {"M": 48, "K": 40, "H": 32, "V": 16},
    "odd": {"M": 67, "K": 29, "H": 37, "V": 11},
    "perf": {"M": 512, "K": 784, "H": 1024, "V": 128},
}
INPUTS = {
    "x": "float32[M, K]",
    "label": "int32[M] index(V)",
    "learning_rate": "float32[1] learning_rate",
}
PARAMETERS = {
    "weight1": "float32[K, H] weight",
    "bias1": "float32[H] bias",
    "weight2": "float32[H, V] weight",
    "bias2": "float32[V] bias",
}
OUTPUTS = {
    "loss": "float32[M]",
    "new_weight1": "float32[K, H]",
    "new_bias1": "float32[H]",
    "new_weight2": "float32[H, V]",
    "new_bias2": "float32[V]",
}
TOLERANCE = "F3"


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, K: int, H: int, V: int) -> None:
        super().__init__()
        self.num_classes = V
        self.weight1 = _parameter(K, H)
        self.bias1 = _parameter(H)
        self.weight2 = _parameter(H, V)
        self.bias2 = _parameter(V)

    def forward(
        self, x: torch.Tensor, label: torch.Tensor, learning_rate: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        label = label.long()
        hidden = torch.relu(x @ self.weight1 + self.bias1)
        logits = hidden @ self.weight2 + self.bias2
        loss = F.cross_entropy(logits, label, reduction="none")

        wanted = F.one_hot(label, self.num_classes)
        grad_logits = (F.softmax(logits, dim=-1) - wanted) / x.shape[0]
        grad_hidden = (grad_logits @ self.weight2.T) * (hidden > 0)
        return (
            loss,
            self.weight1 - learning_rate * (x.T @ grad_hidden),
            self.bias1 - learning_rate * grad_hidden.sum(dim=0),
            self.weight2 - learning_rate * (hidden.T @ grad_logits),
            self.bias2 - learning_rate * grad_logits.sum(dim=0),
        )
