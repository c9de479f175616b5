"""DLRM's click prediction: embeddings and dense features, all their dot products, then an MLP.

B samples with K dense features and N categories of V values; D features of an embedding, H hidden
features.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"B": 64, "N": 5, "V": 60, "D": 16, "K": 13, "H": 24},
    "odd": {"B": 67, "N": 7, "V": 45, "D": 11, "K": 10, "H": 29},
    "perf": {"B": 2048, "N": 26, "V": 1000, "D": 64, "K": 13, "H": 512},
}
INPUTS = {
    "dense": "float32[B, K]",
    "categories": "int32[B, N] index(V)",
}
PARAMETERS = {
    "tables": "float32[N, V, D]",
    "dense_weight": "float32[K, D] weight",
    "hidden_weight": "float32[D + (N + 1) * (N + 1), H] weight",
    "click_weight": "float32[H, 1] weight",
}
OUTPUTS = {
    "click": "float32[B, 1]",
}
TOLERANCE = "F3"
# Products of two vectors are symmetric, and so is what the layer makes of them: weights of a pair
# can be added. Of the tables, four in five rows are read at least, since some are named twice.
MATMUL_FLOPS = "2 * B * K * D + B * D * (N + 1) * (N + 2) + B * H * (2 * D + (N + 1) * (N + 2) + 2)"
MIN_HBM_BYTES = (
    "4 * (4 * N * V * D // 5 + B * (K + N + 1) + K * D + (D + (N + 1) * (N + 1) + 1) * H)"
)
PRODUCT_SCALE = 0.1


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, N: int, V: int, D: int, K: int, H: int) -> None:
        super().__init__()
        self.tables = _parameter(N, V, D)
        self.dense_weight = _parameter(K, D)
        self.hidden_weight = _parameter(D + (N + 1) * (N + 1), H)
        self.click_weight = _parameter(H, 1)

    def forward(self, dense: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        bottom = torch.relu(dense @ self.dense_weight)
        table = torch.arange(categories.shape[1], device=categories.device)
        embedded = self.tables[table, categories]

        vectors = torch.cat([bottom.unsqueeze(1), embedded], dim=1)
        products = (vectors @ vectors.transpose(1, 2)).flatten(1) * PRODUCT_SCALE
        features = torch.cat([bottom, products], dim=1)
        hidden = torch.relu(features @ self.hidden_weight)
        return torch.sigmoid(hidden @ self.click_weight)
