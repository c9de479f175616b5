"""Arguments that a task updates in place are written, where they lie if nothing reads them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask

Solve = Callable[..., Verdict]
HEAD = "import torch\nimport torch.nn.functional as F\n"
CACHE = "torch.randn(3, 40, 50)"
UPDATES: dict[str, tuple[str, str]] = {
    # The reference, and its inputs.
    "added to": ("cache, x):\n    cache += 2 * x", f"{CACHE}, {CACHE}"),
    "scaled, and a sum": (
        "cache, x):\n    cache.mul_(0.9).add_(x)\n    return cache.sum(-1)",
        f"{CACHE}, {CACHE}",
    ),
    "rows by index": (
        "cache, x, rows):\n    cache.index_copy_(0, rows, x)",
        "torch.randn(70, 50), torch.randn(9, 50), torch.randperm(70)[:9]",
    ),
    "columns of a part": (
        "cache, x):\n    cache[:, 5:9, 10:] = x.exp()",
        f"{CACHE}, torch.randn(3, 4, 40)",
    ),
    "one row": ("cache, x):\n    cache[:, 7] = x", f"{CACHE}, torch.randn(3, 50)"),
    "a part with a number": (
        "cache, x):\n    cache[1:, 7] = 3.0\n    return x + 1",
        f"{CACHE}, {CACHE}",
    ),
    "a part of itself": ("cache):\n    cache[:, :20] += cache[:, 20:]", CACHE),
    "old value after the new one": (
        "cache, x):\n    y = cache @ x\n    cache.mul_(2.0)\n    return y",
        f"{CACHE}, torch.randn(50, 30)",
    ),
    "a view from before": (
        "cache, x):\n    last = cache[:, -1]\n    cache.add_(x)\n    return last * 2",
        f"{CACHE}, {CACHE}",
    ),
    "softmax of itself": ("cache):\n    cache.copy_(torch.softmax(cache, -1))", CACHE),
    "moved by one row": ("cache):\n    cache[:, 1:] = cache[:, :-1].clone()", CACHE),
}


def source(reference: str, inputs: str) -> str:
    """The task file."""
    return (
        f"{HEAD}UPDATES = ('cache',)\n\n\ndef reference({reference}\n\n\n"
        f"def inputs():\n    return [{inputs}]\n"
    )


@pytest.mark.parametrize(("reference", "inputs"), UPDATES.values(), ids=UPDATES)
def test_kernel_of_update_is_right(
    reference: str, inputs: str, make_task: MakeTask, solve: Solve
) -> None:
    verdict = solve(make_task(source(reference, inputs)))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


@pytest.mark.parametrize("name", ["added to", "rows by index", "softmax of itself"])
def test_update_is_written_where_it_lies(name: str, make_task: MakeTask) -> None:
    assert "new_cache" not in write_kernel(make_task(source(*UPDATES[name])), Target.TRN2)


def test_view_that_was_written_through_is_looked_at_again(
    make_task: MakeTask, solve: Solve
) -> None:
    body = "    y = x.clone()\n    part = y[2:5]\n    y.mul_(3.0)\n    return part + 1\n"
    text = f"{HEAD}\ndef reference(x):\n{body}\n\ndef inputs():\n    return [{CACHE}]\n"
    verdict = solve(make_task(text))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
