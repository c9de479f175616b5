"""Router of a mixture of experts in groups, in float32, as in DeepSeek-V3.

Scores are sigmoids; a correction of each expert takes part in the choice only. Half of the G groups
stay, those whose two best experts add up to most, and of their experts the best four are chosen.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"T": 130, "D": 96, "E": 16, "G": 4},
    "odd": {"T": 77, "D": 115, "E": 30, "G": 6},
    "perf": {"T": 8192, "D": 2048, "E": 64, "G": 8},
}
INPUTS = {"x": "float32[T, D]"}
PARAMETERS = {"weight": "float32[D, E] weight", "correction": "float32[E] small"}
OUTPUTS = {"p": "float32[T, 4]", "expert": "int32[T, 4]"}
TOLERANCE = "IX"
NUM_CHOSEN = 4
GROUP_BEST = 2


class Model(nn.Module):
    def __init__(self, D: int, E: int, G: int) -> None:
        super().__init__()
        self.num_groups = G
        self.weight = nn.Parameter(torch.empty(D, E))
        self.correction = nn.Parameter(torch.empty(E))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = torch.sigmoid(x @ self.weight)
        ranked = self._keep_best_groups(scores + self.correction)
        expert = torch.topk(ranked, NUM_CHOSEN, dim=-1).indices
        chosen = scores.gather(-1, expert)
        return chosen / chosen.sum(dim=-1, keepdim=True), expert.to(torch.int32)

    def _keep_best_groups(self, ranked: torch.Tensor) -> torch.Tensor:
        groups = ranked.unflatten(-1, (self.num_groups, -1))
        group_score = torch.topk(groups, GROUP_BEST, dim=-1).values.sum(dim=-1)
        best = torch.topk(group_score, self.num_groups // 2, dim=-1).indices
        is_kept = torch.zeros_like(group_score, dtype=torch.bool).scatter(-1, best, value=True)
        return groups.masked_fill(~is_kept[..., None], float("-inf")).flatten(-2)
