"""Every rule of the author's table once, in float32 on a small tile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

TILE = (130, 20)
TORCH = (
    "torch.add(x, y, alpha=2)",
    "torch.sub(x, y, alpha=2) + (3 - x)",
    "torch.addcmul(x, y, y, value=0.5)",
    "torch.addcdiv(x, y, y.abs() + 1, value=0.5)",
    "torch.lerp(x, y, 0.3)",
    "x / 3 + 2 / (x.abs() + 1)",
    "1 / (x.abs() + 1)",
    "torch.maximum(x, y) - torch.minimum(x, y)",
    "torch.exp(-x.abs()) + torch.log(x.abs() + 1)",
    "torch.sqrt(x.abs()) + torch.rsqrt(x.abs() + 1)",
    "torch.tanh(x) + torch.erf(y) - torch.erfc(y)",
    "torch.sign(x) * y",
    "torch.exp2(x) + torch.log2(x.abs() + 1) + torch.log10(y.abs() + 1)",
    "torch.sinh(x) + torch.cosh(0.1 * y)",
    "torch.floor(3 * x) + torch.ceil(3 * y)",
    "torch.round(3 * x) + y",
    "F.mish(x) + F.silu(y)",
    "F.relu6(x) + F.hardsigmoid(y)",
    "F.softshrink(x) + F.hardshrink(y)",
    "F.logsigmoid(x) + F.threshold(y, 0.1, 20.0)",
    "F.softplus(x, beta=2)",
    "F.selu(x) + F.celu(y)",
    "F.leaky_relu(x, 1.5)",
    "F.softsign(x)",
    "F.tanhshrink(x)",
    "torch.where((x > 0) & (y > 0), x, y)",
    "torch.where((x > 0) | ~(y > 0), x, 1.0)",
    "torch.where(torch.logical_xor(x > 0, y >= 0), x, y)",
    "(x < y).float() * x",
    "x.clamp(min=0.1) + y.clamp(max=-0.1)",
    "x.abs() ** 1.5 + x**-2",
    "x.abs() ** y",
    "2.0 ** x",
    "x * x.norm(dim=-1, keepdim=True) + y.norm(p=1, dim=-1, keepdim=True)",
    "x.norm(p=float('inf'), dim=-1)",
    "x.std(-1) + torch.var_mean(y, -1)[1]",
    "(0.5 + 0.1 * x).prod(-1)",
    "x.max(-1).values - y.min()",
    "x.mean(-1, keepdim=True) ** 3 * y",
    "F.layer_norm(x, (20,)) * F.rms_norm(y, (20,))",
    "F.l1_loss(x, y, reduction='sum')",
    "torch.dot(x[0], y[0])",
    "x.clone().add_(1).mul_(y)",
    "x[:, 1:-1] + y[:, 2:]",
    "x.reshape(13, 200).sum(-1)",
    "x.unsqueeze(1).expand(130, 3, 20).contiguous()",
    "torch.zeros_like(x) + y * torch.full((20,), 2.0)",
    "(x > y)",
    "x",
)
NUMPY = (
    "x.sum(axis=-1) + np.prod(0.5 + 0.1 * y, axis=1)",
    "x.std(axis=-1, keepdims=True) * y.var(axis=-1, ddof=1, keepdims=True)",
    "np.clip(x, -0.5, 0.5) + y.clip(0, None)",
    "x.transpose(1, 0).copy()",
    "np.swapaxes(x, 0, 1) * 2",
    "np.expand_dims(x, 1).squeeze(1) - y",
    "np.broadcast_to(x[:, :1], x.shape) * y",
    "x.ravel() + y.flatten()",
    "np.zeros_like(x) + np.full_like(y, 2.0) * y",
    "x.dot(y.T)",
    "np.log1p(np.abs(x)) + np.rint(3 * y)",
    "x.astype(np.float64) * (y > 0)",
    "np.maximum.reduce(x, axis=-1)",
    "np.moveaxis(x, 0, 1).reshape(20, 130)",
)


@pytest.mark.parametrize("body", TORCH)
def test_kernel_of_torch_expression_is_right(
    body: str, make_task: MakeTask, solve: Callable[..., Verdict]
) -> None:
    verdict = solve(make_task(Operator("expression", body, (TILE, TILE)).source("float32")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


@pytest.mark.parametrize("body", NUMPY)
def test_kernel_of_numpy_expression_is_right(
    body: str, make_task: MakeTask, solve: Callable[..., Verdict]
) -> None:
    source = (
        f"import numpy as np\n\n\ndef reference(x, y):\n    return {body}\n\n\n"
        "def inputs(rng):\n"
        f"    return [rng.standard_normal({TILE}).astype(np.float32) for _ in range(2)]\n"
    )
    verdict = solve(make_task(source))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
