"""Products of whole numbers of eight bits read them as they are stored."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import HEAD

Solve = Callable[..., Verdict]

ROWS, CODES, TURNED = "torch.randn(150, 200)", "(200, 90)", "(90, 200)"
MULTIPLIED = {
    "weights": ("x @ y.to(x.dtype)", CODES),
    "weights by output": ("x @ y.to(x.dtype).T", TURNED),
    "weights seen turned": ("x @ y.T.to(x.dtype)", TURNED),
    "weights of batches": ("x @ y.to(x.dtype)", "(3, 200, 90)"),
    "rows": ("y.to(x.dtype) @ x.T", TURNED),
    "scaled": ("(x @ y.to(x.dtype)) * 0.25 + 1", CODES),
}
OTHERS = {
    "weights that are a result too": ("x @ (c := y.to(x.dtype)), c", CODES),
    "weights that are scaled": ("x @ (y.to(x.dtype) * 0.25)", CODES),
}


def _source(body: str, codes: str) -> str:
    return (
        f"{HEAD}\ndef reference(x, y):\n    return {body}\n\n\ndef inputs():\n"
        f"    codes = torch.randint(-127, 128, {codes}, dtype=torch.int8)\n"
        f"    return [{ROWS}.to(torch.bfloat16), codes]\n"
    )


@pytest.mark.parametrize("target", list(Target), ids=lambda t: t.value)
@pytest.mark.parametrize("name", MULTIPLIED)
def test_product_loads_codes_as_they_are_stored(
    name: str, target: Target, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(_source(*MULTIPLIED[name]))
    verdict = solve(task, target)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert "private_hbm" not in write_kernel(task, target)


@pytest.mark.parametrize("name", OTHERS)
def test_codes_that_others_read_are_a_stage_of_their_own(
    name: str, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(_source(*OTHERS[name]))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert "to_copy(" in write_kernel(task, Target.TRN2)
