"""What cannot be captured or is too much is refused with a node, a reason and a hint."""

from __future__ import annotations

import pytest

from nki_agent.builtin.graph import UnsupportedError
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from tests.builtin.conftest import MakeTask

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
X = "torch.randn(20, 5)"
REFUSED: dict[str, tuple[str, str, str]] = {
    # The reference, its inputs, and what the refusal says.
    "shape from values": ("x):\n    return x[x > 0]", "torch.ones(20, 5)", "without data"),
    "number from values": ("x):\n    return x * x.sum().item()", X, "without data"),
    "loop on values": (
        "x):\n    while x.abs().max() > 1e-3:\n        x = x / 2\n    return x", X, "without data",
    ),
    "values as a list": ("x):\n    return torch.tensor(x.tolist()) + 1", X, "without data"),
    "values as an array": ("x):\n    return torch.from_numpy(x.numpy() + 1)", X, "without data"),
    "complex numbers": ("x):\n    return torch.fft.fft(x).abs()", X, "aten._fft_r2c"),
    "float64": ("x):\n    return x.double().sum(-1)", X, "float64"),
    "weights beyond SBUF": (
        "x, w):\n    return F.conv2d(x, w)",
        "torch.randn(1, 1024, 3, 3), torch.randn(1024, 1024, 3, 3)",
        "its weights need",
    ),
    "constant of a list": (
        "x):\n    return x * x.new_tensor([1.0, 2.0, 3.0, 4.0, 5.0])", X, "neither an input",
    ),
    "very many operators": (
        "x):\n    for _ in range(2100):\n        x = x + x.sin()\n    return x", X, "operators",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("reference", "inputs", "named"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_with_a_hint(
    reference: str, inputs: str, named: str, make_task: MakeTask
) -> None:
    text = f"{HEAD}\n\ndef reference({reference}\n\n\ndef inputs():\n    return [{inputs}]\n"
    with pytest.raises(UnsupportedError, match=named) as caught:
        write_kernel(make_task(text), Target.TRN2)
    assert caught.value.node
    assert caught.value.hint


def test_weight_that_is_no_argument_is_let_be(make_task: MakeTask) -> None:
    text = (
        f"{HEAD}\n\nclass Model(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.x = torch.randn(20, 5)\n\n"
        "    def forward(self, x):\n        return torch.relu(x)\n\n\n"
        f"def get_inputs():\n    return [{X}]\n"
    )
    assert "relu" in write_kernel(make_task(text), Target.TRN2)


def test_layers_that_are_alike_share_a_function(make_task: MakeTask) -> None:
    text = (
        f"{HEAD}\n\nclass Model(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(12)])\n\n"
        "    def forward(self, x):\n        for layer in self.layers:\n"
        "            x = torch.tanh(layer(x))\n        return x\n\n\n"
        "def get_inputs():\n    return [torch.randn(8, 16)]\n"
    )
    source = write_kernel(make_task(text), Target.TRN2)
    assert source.count("nisa.nc_matmul(") <= 3
    assert source.count("\ndef stage_") <= 2 * 3
