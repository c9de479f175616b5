"""Values that are only read across are made across: right, and without a stage that turns them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

Solve = Callable[..., Verdict]

TURNED = "turned_tile"
"""What a stage calls its tile that does nothing but turn."""
PAIR = ((2, 150, 40), (40, 70))
ACROSS = (
    Operator("product", "(x @ y).mT.contiguous()", PAIR),
    Operator("product of one batch", "(x @ y).mT.contiguous()", ((1, 40, 24), (24, 9))),
    Operator("with a bias", "torch.relu(x @ y + z).mT.contiguous() * 2", (*PAIR, (70,))),
    Operator("half of the columns", "(x @ y)[..., :30].mT.contiguous()", PAIR),
    Operator(
        "both halves, one of them turned",
        "(lambda a, b: a.mT.contiguous() @ b)(*(x @ y).chunk(2, -1))",
        ((2, 150, 40), (40, 140)),
    ),
    Operator(
        "gated linear unit", "F.glu(x @ y, -1).mT.contiguous() + 1", ((2, 150, 40), (40, 140))
    ),
    Operator(
        "heads",
        "(x @ y).unflatten(-1, (5, 14)).permute(0, 2, 3, 1).contiguous()", PAIR,
    ),
    Operator(
        "between a convolution and a product",
        "(F.conv1d((x @ y).mT, z, groups=70, padding=1).mT.contiguous() * (x @ y).tanh()) @ w",
        (*PAIR, (70, 1, 3), (70, 33)),
    ),
)  # fmt: skip
KEPT = (
    Operator("read both ways", "(lambda a: a.mT.contiguous() @ a)(torch.relu(x @ y) * 2)", PAIR),
    Operator(
        "a slice beside the whole",
        "(lambda a: a[..., :30].mT.contiguous() @ torch.relu(a))(x @ y)",
        PAIR,
    ),
    Operator(
        "a slice that is a result",
        "(lambda a, b: (a.mT.contiguous(), b))(*(x @ y).chunk(2, -1))",
        PAIR,
    ),
    Operator("of short batches", "(x @ y).mT.contiguous()", ((60, 9, 40), (40, 70))),
    Operator("of an argument", "torch.relu(x).mT.contiguous()", ((2, 150, 40),)),
)


@pytest.mark.parametrize("operator", ACROSS, ids=lambda o: o.name)
def test_what_is_read_across_is_made_across(
    operator: Operator, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source("float32"))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert TURNED not in write_kernel(task, Target.TRN2)


@pytest.mark.parametrize("operator", KEPT, ids=lambda o: o.name)
def test_what_is_read_otherwise_too_is_right(
    operator: Operator, make_task: MakeTask, solve: Solve
) -> None:
    verdict = solve(make_task(operator.source("float32")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_sixteen_bits_are_right_across(make_task: MakeTask, solve: Solve) -> None:
    verdict = solve(make_task(ACROSS[2].source("bfloat16")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
