"""What is only moved costs no more bytes than it has, and passes through no engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nki_agent.builtin.choices import Choices
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

Solve = Callable[[Task], Verdict]
ROLLED = Operator("rolled", "x + F.relu(x).roll((3, -5), (1, 2))", ((3, 40, 30, 6),))
TAKEN = """import torch


def reference(table, places):
    taken = table[places]
    return taken, taken * 2


def inputs():
    return [torch.randn({rows}, {cols}), torch.randint(0, {rows}, ({count},), dtype=torch.int32)]
"""


def test_values_side_by_side_keep_their_short_dtype_between_stages(
    make_task: MakeTask, judges: dict[Target, Judge]
) -> None:
    task = make_task(ROLLED.source("bfloat16"))
    text = write_kernel(task, Target.TRN2, choices=Choices().rounding(allowed=True))
    hidden = [part for part in text.split("nl.ndarray(") if "buffer=nl.private_hbm" in part]
    assert hidden
    assert all("dtype=nl.bfloat16" in part for part in hidden)
    verdict = judges[Target.TRN2].judge(Kernel.from_text(text), task, root_seed=1)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


@pytest.mark.parametrize(("rows", "cols", "count"), [(70, 900, 150), (9, 20000, 5)])
def test_rows_by_index_go_from_hbm_to_hbm(
    rows: int, cols: int, count: int, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(TAKEN.format(rows=rows, cols=cols, count=count))
    text = write_kernel(task, Target.TRN2)
    taking = text[text.index("Take rows") : text.index("def kernel(")]
    stage = taking.partition("\n\n\n")[0]
    assert "vector_select(" in stage
    assert "tile = " not in stage
    larger = make_task(TAKEN.format(rows=rows + 3, cols=cols + 17, count=count + 130))
    verdict = solve(replace(task, perf=replace(larger.dev, name="perf")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
