"""Rows that each meet the matrix which their index names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import HEAD

Solve = Callable[..., Verdict]

NARROW, LOW, SQUARE = (5, 90, 12), (5, 12, 70), (5, 90, 90)
IN_ORDER = {
    "narrow, then low": ("(x[:, None] @ y[i] @ z[i]).squeeze(1)", NARROW, LOW),
    "low": ("(x[:, None, :12] @ z[i]).squeeze(1) + y[0, 0, 0]", NARROW, LOW),
}
TAKEN = {
    "narrow": ("(x[:, None] @ y[i]).squeeze(1) + z[0, 0, 0]", NARROW, LOW),
    "square": ("(x[:, None] @ y[i]).squeeze(1) + z[0, 0, 0]", SQUARE, LOW),
    "of two indices": ("(x[:, None] @ y[i] @ z[4 - i]).squeeze(1)", NARROW, LOW),
}


def _source(body: str, *shapes: tuple[int, ...]) -> str:
    drawn = ", ".join(f"torch.randn{shape}.to(torch.bfloat16)" for shape in ((150, 90), *shapes))
    return (
        f"{HEAD}\ndef reference(x, y, z, i):\n    return {body}\n\n\ndef inputs():\n"
        f"    return [{drawn}, torch.randint(0, 5, (150,))]\n"
    )


@pytest.mark.parametrize("name", IN_ORDER)
def test_rows_before_low_matrices_take_no_results(
    name: str, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(_source(*IN_ORDER[name]))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert "take_rows" not in write_kernel(task, Target.TRN2)


@pytest.mark.parametrize("name", TAKEN)
def test_rows_take_results_of_other_matrices(name: str, make_task: MakeTask, solve: Solve) -> None:
    task = make_task(_source(*TAKEN[name]))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert "take_rows" in write_kernel(task, Target.TRN2)
