"""Scans and loops over time: right on ragged sizes, at every shape set, and readable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.task.task import Task
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import HEAD, Operator

Solve = Callable[..., Verdict]

SCANS = (
    Operator("running sum", "torch.cumsum(x, -1)", ((130, 77),)),
    Operator("running sum of columns", "torch.cumsum(x, 0)", ((77, 130),)),
    Operator("running product", "torch.cumprod(1 + 0.01 * x, -1)", ((3, 50, 40),)),
    Operator("from the end", "x.flip(1).cumsum(1).flip(1) - x", ((130, 77),)),
    Operator("of what a mask keeps", "x.masked_fill(y > 0, 0.0).cumsum(2)", ((2, 9, 40),) * 2),
    Operator("of one row", "torch.cumsum(x, 0)", ((300,),)),
)
LOOP = (
    "\n\ndef scan(kept, added):\n    state, states = torch.zeros_like(added[:, 0]), []\n"
    "    for kept_now, added_now in zip(kept.unbind(1), added.unbind(1), strict=True):\n"
    "        state = {step}\n        states.append({seen})\n"
    "    return torch.stack(states, dim=1)\n"
)
STEPS = {
    "state of each channel": ("kept_now * state + added_now", "state"),
    "state and a skip": ("kept_now * state + added_now", "state * 2 + added_now"),
    "share of a candidate": ("state + kept_now * (added_now - state)", "state"),
    "without a decay": ("state + added_now", "state"),
}
RAGGED = {"dev": ((1, 20, 33), (2, 37, 50)), "odd": ((2, 20, 33), (1, 45, 18))}


def _loop(step: str, seen: str, shape: tuple[int, ...]) -> str:
    return (
        f"{HEAD}{LOOP.format(step=step, seen=seen)}\n\ndef reference(x, y):\n"
        "    return scan(torch.sigmoid(x), torch.tanh(y) * x)\n\n\n"
        f"def inputs():\n    return [torch.randn{shape!r}, torch.randn{shape!r}]\n"
    )


LONGEST_CHANGES = f"""{HEAD}
SHAPES = {{"dev": {{"B": 82, "D": 30}}, "odd": {{"B": 20, "D": 74}}, "perf": {{"B": 50, "D": 60}}}}
INPUTS = {{"kept": "float32[B, 5, D] decay", "added": "float32[B, 5, D]"}}
OUTPUTS = {{"y": "float32[B, 5, D]"}}
{LOOP.format(step="kept_now * state + added_now", seen="state")}

def reference(kept, added):
    return scan(kept, added)
"""


def test_axis_beside_time_is_the_same_at_every_shape_set(make_task: MakeTask, solve: Solve) -> None:
    verdict = solve(make_task(LONGEST_CHANGES))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


@pytest.mark.parametrize("operator", SCANS, ids=lambda o: o.name)
def test_scan_is_right(operator: Operator, make_task: MakeTask, solve: Solve) -> None:
    verdict = solve(make_task(operator.source("float32")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("sizes", RAGGED)
def test_loop_over_time_is_one_scan_at_every_shape_set(
    name: str, sizes: str, make_task: MakeTask, solve: Solve
) -> None:
    small, large = RAGGED[sizes]
    task: Task = make_task(_loop(*STEPS[name], small))
    task = replace(task, perf=replace(make_task(_loop(*STEPS[name], large)).dev, name="perf"))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert write_kernel(task, Target.TRN2).count("nisa.tensor_tensor_scan(") == 1


def test_two_results_of_one_sum_share_its_tile(make_task: MakeTask, solve: Solve) -> None:
    body = "(y + 2 * x, (y + 2 * x).to(torch.bfloat16), 3 * (y + 2 * x))"
    verdict = solve(make_task(Operator("three", body, ((130, 40), (130, 40))).source("float32")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_tile_is_never_called_like_an_argument(make_task: MakeTask, solve: Solve) -> None:
    source = Operator("norm", "F.layer_norm(x, (40,)) * y + z", ((130, 40), (40,), (40,)))
    text = source.source("float32").replace("x, y, z", "x, scale, shift")
    text = text.replace("* y + z", "* scale + shift")
    verdict = solve(make_task(text))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_batch_of_one_has_the_kernel_of_larger_batches(make_task: MakeTask, solve: Solve) -> None:
    body = (
        "F.scaled_dot_product_attention(*(t.unflatten(-1, (y.shape[0], -1)).transpose(1, 2)"
        " for t in (x, 2 * x, x + 1))).transpose(1, 2).flatten(2)"
    )
    small = Operator("heads", body, ((1, 40, 48), (3,)))
    task = make_task(small.source("float32").replace("return F", "return y.sum() * 0 + F"))
    larger = Operator("heads", body, ((2, 27, 55), (5,)))
    other = make_task(larger.source("float32").replace("return F", "return y.sum() * 0 + F"))
    verdict = solve(replace(task, perf=replace(other.dev, name="perf")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


CELLS = {
    "elman": "h = torch.tanh(now + h @ w)",
    "gated": (
        "gate, new = (now.repeat(1, 2) + h @ w2).chunk(2, -1); "
        "h = h + torch.sigmoid(gate) * (new - h)"
    ),
    "leaky": "h = 0.5 * torch.relu(now + h)",
}
CELL_SIZES = {"dev": ((1, 12, 24), (2, 17, 37)), "odd": ((3, 17, 37), (1, 12, 24))}


def _cell(step: str, shape: tuple[int, ...]) -> str:
    batch, _, width = shape
    weights = f"torch.randn({width}, {width}) / 8, torch.randn({width}, {2 * width}) / 8"
    return (
        f"{HEAD}\n\ndef reference(x, h, w, w2):\n    outs = []\n    for now in x.unbind(1):\n"
        f"        {step}\n        outs.append(h)\n"
        "    return torch.stack(outs, 1), w.sum() + w2.sum()\n\n\n"
        f"def inputs():\n    return [torch.randn{shape!r}, torch.randn({batch}, {width}),"
        f" {weights}]\n"
    )


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("sizes", CELL_SIZES)
def test_recurrent_cell_is_right(name: str, sizes: str, make_task: MakeTask, solve: Solve) -> None:
    small, large = CELL_SIZES[sizes]
    task: Task = make_task(_cell(CELLS[name], small))
    task = replace(task, perf=replace(make_task(_cell(CELLS[name], large)).dev, name="perf"))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    # What is repeated in a step is no part of a tensor: that cell goes through HBM step by step.
    is_resident = name != "gated"
    assert ("_all_steps(" in write_kernel(task, Target.TRN2)) is is_resident


VECTORS = (
    Operator("sum", "x.sum()", ((1_000_003,),)),
    Operator("kept", "x.sum(0, keepdim=True)", ((5000,),)),
    Operator("largest product", "(x * y).amax()", ((4099,), (4099,))),
    Operator("norm", "torch.linalg.vector_norm(x)", ((70_001,),)),
    Operator("count", "(x > 0.5).sum().float()", ((1_300,),)),
    Operator("few", "x.mean()", ((7,),)),
)


@pytest.mark.parametrize("operator", VECTORS, ids=lambda o: o.name)
def test_vector_of_any_length_is_reduced(
    operator: Operator, make_task: MakeTask, solve: Solve
) -> None:
    verdict = solve(make_task(operator.source("float32")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_product_deeper_than_sbuf_is_right(make_task: MakeTask, solve: Solve) -> None:
    operator = Operator("deep", "torch.relu(x @ y)", ((140, 60_100), (60_100, 50)))
    verdict = solve(make_task(operator.source("float32")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
