"""Every worked pattern that `look_up` shows is a kernel that the judge finds right."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_agent.agent.cards import find_guides, look_up
from nki_agent.agent.loop import find_kernel
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.task.loader import load_task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage

SHAPED = "rng.standard_normal({}, dtype=np.float32)"
X = SHAPED.format((200, 300))
REFERENCES = {
    "causal-mask": (
        "np.where(np.tril(np.ones((200, 200), bool)), x, -30000.0).astype(np.float32)",
        {"x": SHAPED.format((200, 200))},
    ),
    "column-sums": ("x.sum(0)", {"x": SHAPED.format((300, 700))}),
    "elementwise": (
        "gelu(x + y)",
        {"x": SHAPED.format((2, 100, 33)), "y": SHAPED.format((2, 100, 33))},
    ),
    "matmul": ("x @ w", {"x": X, "w": SHAPED.format((300, 700))}),
    "row-norm": (
        "x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w",
        {"x": X, "w": SHAPED.format((300,))},
    ),
    "row-softmax": ("softmax(x)", {"x": X}),
    "transpose": ("x.T.copy()", {"x": X}),
    "wide-rows": ("x.sum(-1)", {"x": SHAPED.format((130, 5000))}),
}
TASK = '''"""{name}."""

import math

import numpy as np

erf = np.vectorize(math.erf)


def gelu(x):
    return (0.5 * x * (1.0 + erf(x / np.sqrt(2.0)))).astype(x.dtype)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def reference({names}):
    return {result}


def inputs(rng):
    return {{{inputs}}}
'''
GUIDES = {"faster", "repair"}


def test_every_pattern_is_tried() -> None:
    assert {name for name, _ in find_guides()} == {*REFERENCES, *GUIDES}


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_pattern_is_right(name: str, tmp_path: Path, judge: Judge) -> None:
    result, drawn = REFERENCES[name]
    path = tmp_path / f"{name}.py"
    inputs = ", ".join(f'"{key}": {value}' for key, value in drawn.items())
    path.write_text(TASK.format(name=name, names=", ".join(drawn), result=result, inputs=inputs))
    source = find_kernel(dict(find_guides())[name])
    assert source is not None
    verdict = judge.judge(Kernel.from_text(source), load_task(path), root_seed=1)
    assert verdict.stage is Stage.RIGHT, [str(d) for d in verdict.diagnostics]


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("softmax pattern", "# Pattern: softmax of rows"),
        ("pattern matmul", "# Pattern: matrix multiply"),
        ("sum over the batch across partitions", "# Pattern: sum across partitions"),
        ("how do I make a kernel faster", "# Guide: make a right kernel faster"),
        ("rmsnorm", "# Pattern: normalise rows"),
        ("causal attention mask", "# Pattern: mask by position"),
    ],
)
def test_words_find_the_pattern(query: str, title: str) -> None:
    assert title in look_up(query, target=Target.TRN2)


def test_surface_of_instructions_is_shown_no_kernel_that_leaves_places_out() -> None:
    text = look_up("softmax of rows", target=Target.TRN2, surface=Surface.ISA)
    assert "nl.ndarray(" not in text
    faster = look_up("make it faster", target=Target.TRN2, surface=Surface.ISA)
    assert "# Guide: make a right kernel faster" in faster
