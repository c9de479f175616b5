"""Small task files for the tests of this room."""

from __future__ import annotations

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n"


def given(body: str, *, shapes: str = "(6, 10)") -> str:
    """A function of one tensor `x`, and of a second `y` of the same shape where it is named."""
    names = [name for name in ("x", "y") if f"{name}" in body.replace("exp", "").replace("max", "")]
    tensors = ", ".join(f"torch.randn{shapes}" for _ in names)
    return (
        f"{HEAD}def reference({', '.join(names)}):\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
        + f"\n\ndef inputs():\n    return [{tensors}]\n"
    )


def with_weights(body: str) -> str:
    """A function of activations [6, 10], a weight [14, 10] and a bias [14]."""
    return (
        f"{HEAD}def reference(x, weight, bias):\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
        + "\n\ndef inputs():\n"
        "    return [torch.randn(6, 10), torch.randn(14, 10), torch.randn(14)]\n"
    )


def declared(
    body: str, *, m: int = 6, n: int = 10, dtype: str = "float32", perf: int = 2048
) -> str:
    """A declared task of one tensor `x` [M, N]; the result is `y` of the same form."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return (
        f'"""Made for a test."""\n\n{HEAD}'
        f'SHAPES = {{"dev": {{"M": {m}, "N": {n}}}, "perf": {{"M": {perf}, "N": {perf}}}}}\n'
        f'INPUTS = {{"x": "{dtype}[M, N]"}}\nOUTPUTS = {{"y": "{dtype}[M, N]"}}\n\n\n'
        f"def reference(x):\n{lines}"
    )
