"""Lines of neighbouring planes share a product where few output channels leave room for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.choices import Choices
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

Solve = Callable[..., Verdict]

SIGN = "plane_groups"
SHARED = (
    Operator(
        "odd planes and lines", "F.conv3d(x, y, padding=1)", ((2, 8, 5, 9, 11), (20, 8, 3, 3, 3))
    ),
    Operator(
        "bias and clamp",
        "F.leaky_relu(F.conv3d(x, y, z, padding=(0, 1, 2)), 0.1)",
        ((1, 5, 6, 40, 24), (32, 5, 2, 3, 5), (32,)),
    ),
    Operator("two lines a step", "F.conv3d(x, y, padding=1)", ((1, 16, 4, 9, 7), (9, 16, 3, 3, 3))),
    Operator("many channels", "F.conv3d(x, y)", ((1, 140, 5, 6, 7), (30, 140, 3, 3, 3))),
)
APART = (
    Operator("groups", "F.conv3d(x, y, groups=2)", ((2, 12, 5, 6, 7), (48, 6, 3, 2, 3))),
    Operator(
        "a pixel of another",
        "z + F.conv3d(x, y, padding=1)",
        ((2, 8, 5, 9, 11), (20, 8, 3, 3, 3), (2, 20, 5, 9, 11)),
    ),
    Operator("one plane", "F.conv3d(x, y)", ((2, 8, 3, 9, 11), (20, 8, 3, 3, 3))),
    Operator("planes beside", "F.conv3d(x, y)", ((2, 8, 3, 9, 11), (20, 8, 1, 3, 3))),
    Operator("planes apart", "F.conv3d(x, y, stride=2)", ((2, 8, 7, 9, 11), (20, 8, 3, 3, 3))),
    Operator("many outputs", "F.conv3d(x, y)", ((2, 8, 5, 9, 11), (40, 8, 3, 3, 3))),
)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("operator", SHARED, ids=lambda o: o.name)
def test_lines_of_two_planes_share_products(
    operator: Operator, dtype: str, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source(dtype))
    assert SIGN in write_kernel(task, Target.TRN2)
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


@pytest.mark.parametrize("target", [Target.TRN1, Target.TRN3])
def test_shared_planes_are_right_on_other_chips(
    target: Target, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(SHARED[0].source("float32"))
    assert SIGN in write_kernel(task, target)
    verdict = solve(task, target)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_halves_of_shared_planes_are_right(
    make_task: MakeTask, judges: dict[Target, Judge]
) -> None:
    task = make_task(SHARED[2].source("float32"))
    text = write_kernel(task, Target.TRN2, choices=Choices(split_products=True))
    assert SIGN in text
    assert "w_half" in text
    verdict = judges[Target.TRN2].judge(Kernel.from_text(text), task, root_seed=1)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


@pytest.mark.parametrize("operator", APART, ids=lambda o: o.name)
def test_planes_stay_apart_where_they_share_nothing(
    operator: Operator, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source("float32"))
    assert SIGN not in write_kernel(task, Target.TRN2)
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
