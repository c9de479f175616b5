"""A bidirectional GRU layer over whole sequences, from a given hidden state per direction.

B sequences of L tokens of D features, H hidden features per direction; gates in the order reset,
update, new.
"""

import torch
from torch import nn

SHAPES = {
    "dev": {"B": 3, "L": 12, "D": 24, "H": 24},
    "odd": {"B": 5, "L": 17, "D": 29, "H": 37},
    "perf": {"B": 16, "L": 128, "D": 256, "H": 256},
}
INPUTS = {
    "x": "float32[B, L, D]",
    "hidden": "float32[2, B, H] small",
}
PARAMETERS = {
    "input_weight": "float32[2, D, 3 * H] weight",
    "hidden_weight": "float32[2, H, 3 * H] weight",
    "input_bias": "float32[2, 3 * H] bias",
    "hidden_bias": "float32[2, 3 * H] bias",
}
OUTPUTS = {"y": "float32[B, L, 2 * H]"}
TOLERANCE = "F4"
FORWARD, BACKWARD = 0, 1


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, D: int, H: int) -> None:
        super().__init__()
        self.input_weight = _parameter(2, D, 3 * H)
        self.hidden_weight = _parameter(2, H, 3 * H)
        self.input_bias = _parameter(2, 3 * H)
        self.hidden_bias = _parameter(2, 3 * H)

    def forward(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        ahead = self._run(x, hidden[FORWARD], FORWARD)
        back = self._run(x.flip(1), hidden[BACKWARD], BACKWARD).flip(1)
        return torch.cat([ahead, back], dim=-1)

    def _run(self, x: torch.Tensor, hidden: torch.Tensor, direction: int) -> torch.Tensor:
        from_input = x @ self.input_weight[direction] + self.input_bias[direction]
        hidden_weight = self.hidden_weight[direction]
        hidden_bias = self.hidden_bias[direction]
        outputs = []
        for token_input in from_input.unbind(1):
            input_reset, input_update, input_new = token_input.chunk(3, dim=-1)
            from_hidden = hidden @ hidden_weight + hidden_bias
            hidden_reset, hidden_update, hidden_new = from_hidden.chunk(3, dim=-1)
            reset = torch.sigmoid(input_reset + hidden_reset)
            update = torch.sigmoid(input_update + hidden_update)
            new = torch.tanh(input_new + reset * hidden_new)
            hidden = (1.0 - update) * new + update * hidden
            outputs.append(hidden)
        return torch.stack(outputs, dim=1)
