"""Products whose results are short rows leave in long runs, and are right at any number of rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

Solve = Callable[..., Verdict]

SHORT = (
    Operator("as many rows as partitions hold", "x @ y", ((1024, 40), (40, 50))),
    Operator("rows that do not divide", "torch.relu(x @ y)", ((1300, 40), (40, 50))),
    Operator("a prime number of rows", "x @ y", ((257, 24), (24, 7))),
    Operator("of batches", "(x @ y) * 2", ((3, 512, 64), (3, 64, 64))),
    Operator("with a sum for each row", "(x @ y) / (x @ z + 100)", ((600, 40), (40, 50), (40, 1))),
)
LONG = Operator("long rows", "x @ y", ((1024, 40), (40, 300)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("operator", SHORT, ids=lambda o: o.name)
def test_short_results_are_stored_together(
    operator: Operator, dtype: str, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source(dtype))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert "rows_each(" in write_kernel(task, Target.TRN2)


def test_long_results_are_stored_tile_by_tile(make_task: MakeTask) -> None:
    assert "rows_each(" not in write_kernel(make_task(LONG.source("float32")), Target.TRN2)
