"""An LSTM layer over whole sequences, from a given hidden and cell state.

B sequences of L tokens of D features, H hidden features; gates in the order input, forget, cell,
output.
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
    "hidden": "float32[B, H] small",
    "cell": "float32[B, H] small",
}
PARAMETERS = {
    "input_weight": "float32[D, 4 * H] weight",
    "hidden_weight": "float32[H, 4 * H] weight",
    "bias": "float32[4 * H] bias",
}
OUTPUTS = {"y": "float32[B, L, H]"}
TOLERANCE = "F4"


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=torch.float32))


class Model(nn.Module):
    def __init__(self, D: int, H: int) -> None:
        super().__init__()
        self.input_weight = _parameter(D, 4 * H)
        self.hidden_weight = _parameter(H, 4 * H)
        self.bias = _parameter(4 * H)

    def forward(self, x: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor) -> torch.Tensor:
        from_input = x @ self.input_weight + self.bias
        outputs = []
        for token_input in from_input.unbind(1):
            gates = token_input + hidden @ self.hidden_weight
            input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=-1)
            cell = torch.sigmoid(forget_gate) * cell
            cell = cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
            hidden = torch.sigmoid(output_gate) * torch.tanh(cell)
            outputs.append(hidden)
        return torch.stack(outputs, dim=1)
