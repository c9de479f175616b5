"""NumPy references become the same kernels, through ufuncs, functions, methods and indexing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import NAMES, Shapes

CASES: tuple[tuple[str, str, str, Shapes], ...] = (
    (
        "softmax",
        "e = np.exp(x - x.max(axis=-1, keepdims=True))",
        "e / e.sum(axis=-1, keepdims=True)",
        ((200, 300),),
    ),
    (
        "layer norm",
        "m, v = np.mean(x, axis=-1, keepdims=True), np.var(x, -1, keepdims=True)",
        "(x - m) / np.sqrt(v + 1e-5) * y + z",
        ((3, 50, 300), (300,), (300,)),
    ),
    ("matmul", "pass", "np.maximum(x @ y + z, 0)", ((130, 200), (200, 100), (100,))),
    ("transpose", "pass", "x.T", ((130, 200),)),
    ("where", "pass", "np.where(x > 0, x, np.expm1(x))", ((130, 200),)),
    ("in place", "x = x + 0; x *= 2; x += 1", "x", ((130, 200),)),
    ("norm", "pass", "x / np.linalg.norm(x, axis=-1, keepdims=True)", ((130, 40),)),
    ("slices", "pass", "x[:, ::2] * y[None, :] + x[:, 1::2].reshape(130, -1)", ((130, 60), (30,))),
    (
        "attention",
        "s = x @ y.T / np.sqrt(64); p = np.exp(s - s.max(-1, keepdims=True))",
        "(p / p.sum(-1, keepdims=True)) @ z",
        ((130, 64), (200, 64), (200, 32)),
    ),
)


@pytest.mark.parametrize(("name", "before", "result", "shapes"), CASES, ids=[c[0] for c in CASES])
def test_kernel_of_numpy_function_is_right(
    name: str,
    before: str,
    result: str,
    shapes: Shapes,
    make_task: MakeTask,
    solve: Callable[..., Verdict],
) -> None:
    drawn = ", ".join(f"rng.standard_normal({shape!r}).astype(np.float32)" for shape in shapes)
    source = (
        "import numpy as np\n\n\n"
        f"def reference({', '.join(NAMES[: len(shapes)])}):\n"
        f"    {before}\n    return {result}\n\n\n"
        f"def inputs(rng):\n    return [{drawn}]\n"
    )
    verdict = solve(make_task(source))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
