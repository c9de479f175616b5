"""Loops over time keep their state on chip: right at ragged sizes, and in one stage."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.task.task import Task
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import HEAD

Solve = Callable[..., Verdict]

CELLS = {
    "elman": "h = torch.tanh(now + h @ w)",
    "weights that lie turned": "h = torch.tanh(now + h @ w.T)",
    "three gates": (
        "r, u, n = (h @ w3).chunk(3, -1); u = torch.sigmoid(now + u);"
        " h = (1 - u) * torch.tanh(now + torch.sigmoid(r) * n) + u * h"
    ),
    "gate in front of a product": (
        "r = torch.sigmoid(now + h @ w); h = h + 0.5 * torch.tanh((r * h) @ w.T)"
    ),
    "bias and a second state": (
        "c = 0.5 * c + torch.sigmoid(now + h @ w + b); h = torch.tanh(c) * h"
    ),
}
SIZES = {
    "one partly filled block": ((3, 9, 24), (2, 6, 37)),
    "blocks that are filled up": ((2, 5, 131), (1, 6, 24)),
    "two whole blocks": ((5, 6, 256), (2, 5, 40)),
    "sequences beyond the partitions": ((131, 5, 24), (3, 9, 37)),
}


def _cell(step: str, shape: tuple[int, ...], dtype: str = "float32") -> str:
    batch, _, width = shape
    made = ", ".join(
        f"(torch.randn({sizes}) / 8).to(torch.{dtype})"
        for sizes in (f"{width}, {width}", f"{width}, {3 * width}", f"{width}")
    )
    return (
        f"{HEAD}\n\ndef reference(x, h, first, w, w3, b):\n    c, outs = first, []\n"
        f"    for now in x.unbind(1):\n        {step}\n        outs.append(h)\n"
        "    rest = sum(t.float().sum() for t in (first, w, w3, b))\n"
        "    return torch.stack(outs, 1), rest\n\n\n"
        f"def inputs():\n    x = torch.randn{shape!r}.to(torch.{dtype})\n"
        f"    h, c = torch.randn(2, {batch}, {width}).to(torch.{dtype}).unbind(0)\n"
        f"    return [x, h, c, {made}]\n"
    )


def _at_both(make_task: MakeTask, small: str, large: str) -> Task:
    task: Task = make_task(small)
    return replace(task, perf=replace(make_task(large).dev, name="perf"))


@pytest.mark.parametrize("name", CELLS)
def test_cell_keeps_its_state_in_one_stage(name: str, make_task: MakeTask, solve: Solve) -> None:
    first, second = SIZES["one partly filled block"]
    task = _at_both(make_task, _cell(CELLS[name], first), _cell(CELLS[name], second))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    text = write_kernel(task, Target.TRN2)
    assert "_all_steps(" in text
    assert "for time in" not in text


def test_product_that_most_follows_from_comes_first(make_task: MakeTask) -> None:
    text = write_kernel(make_task(_cell(CELLS["three gates"], (3, 9, 24))), Target.TRN2)
    reset, update, new = "0", "1", "2"
    assert re.findall(r"weights_1, (\d)", text) == [reset, new, update]


@pytest.mark.parametrize("sizes", SIZES)
def test_cell_is_right_at_sizes(sizes: str, make_task: MakeTask, solve: Solve) -> None:
    step = CELLS["three gates"]
    first, second = SIZES[sizes]
    verdict = solve(_at_both(make_task, _cell(step, first), _cell(step, second)))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_cell_of_16_bits_is_right(make_task: MakeTask, solve: Solve) -> None:
    verdict = solve(make_task(_cell(CELLS["elman"], (3, 5, 24), "bfloat16")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_loop_of_another_form_goes_step_by_step(make_task: MakeTask, solve: Solve) -> None:
    # The product is three times as wide as the state, and is not taken part by part.
    step = "h = torch.tanh(now + torch.relu(h @ w3) @ w3.T)"
    task = make_task(_cell(step, (3, 6, 24)))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert "for time in" in write_kernel(task, Target.TRN2)


ROWS = {
    "delta rule": (
        "kept = kept * decay[:, t, :, None, None]\n"
        "        error = value[:, t].unsqueeze(-1) - kept @ key[:, t].unsqueeze(-1)\n"
        "        kept = kept + 0.5 * error * key[:, t].unsqueeze(-2)\n"
        "        seen = (kept @ query[:, t].unsqueeze(-1)).squeeze(-1)"
    ),
    "state that is clipped and returned": (
        "kept = torch.clamp(kept + value[:, t].unsqueeze(-1) * key[:, t].unsqueeze(-2), -1, 1)\n"
        "        seen = kept"
    ),
}
ROW_SIZES = {
    "blocks above one another": ((1, 7, 4, 24, 16), (2, 6, 3, 16, 9)),
    "rows beyond the partitions": ((1, 5, 2, 140, 8), (2, 6, 3, 16, 9)),
}


def _rows(step: str, shape: tuple[int, ...]) -> str:
    batch, steps, heads, rows, cols = shape
    return (
        f"{HEAD}\n\ndef reference(query, key, value, decay):\n"
        f"    kept, outs = query.new_zeros({batch}, {heads}, {rows}, {cols}), []\n"
        "    query, key = F.normalize(query, dim=-1), F.normalize(key, dim=-1)\n"
        "    decay = torch.sigmoid(decay)\n"
        f"    for t in range({steps}):\n        {step}\n        outs.append(seen)\n"
        "    return torch.stack(outs, 1) + 0 * decay.sum()\n\n\ndef inputs():\n"
        f"    short = torch.randn(2, {batch}, {steps}, {heads}, {cols})\n"
        f"    value = torch.randn({batch}, {steps}, {heads}, {rows})\n"
        f"    return [short[0], short[1], value, torch.randn({batch}, {steps}, {heads})]\n"
    )


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("sizes", ROW_SIZES)
def test_rows_that_go_their_own_ways_keep_their_state(
    name: str, sizes: str, make_task: MakeTask, solve: Solve
) -> None:
    first, second = ROW_SIZES[sizes]
    task = _at_both(make_task, _rows(ROWS[name], first), _rows(ROWS[name], second))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    text = write_kernel(task, Target.TRN2)
    assert "_all_steps(" in text
    assert "for time in" not in text


LAYERS = {
    "of both directions": ("run(x, h, w) + run(x.flip(1), h, w.T).flip(1)", 1),
    "of two layers": ("run(run(x, h, w), h, w.T)", 2),
}


@pytest.mark.parametrize("name", LAYERS)
def test_loops_run_together_unless_one_needs_the_other(
    name: str, make_task: MakeTask, solve: Solve
) -> None:
    body, count = LAYERS[name]
    task = make_task(
        f"{HEAD}\n\ndef run(x, h, w):\n    outs = []\n    for now in x.unbind(1):\n"
        "        h = torch.tanh(now + h @ w)\n        outs.append(h)\n"
        f"    return torch.stack(outs, 1)\n\n\ndef reference(x, h, w):\n    return {body}\n\n\n"
        "def inputs():\n    return [torch.randn(3, 9, 24), torch.randn(3, 24),"
        " torch.randn(24, 24) / 8]\n"
    )
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    kernel = write_kernel(task, Target.TRN2).partition("def kernel(")[2]
    assert kernel.count("_all_steps(") == count


ADDED = {
    "bias of a gate": ("h = torch.tanh(now + (h @ w + b))", True),
    "bias of what is scaled": ("h = torch.tanh(now + 0.5 * (h @ w + b))", False),
    "sum that is read twice": ("g = h @ w + b; h = torch.tanh(now + g) * torch.sigmoid(g)", False),
}


@pytest.mark.parametrize("name", ADDED)
def test_bias_is_added_to_the_inputs_of_many_steps(
    name: str, make_task: MakeTask, solve: Solve
) -> None:
    step, is_early = ADDED[name]
    first, second = SIZES["one partly filled block"]
    task = _at_both(make_task, _cell(step, first), _cell(step, second))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    text = write_kernel(task, Target.TRN2)
    assert ("dst=ahead_1[:, 0, :, :]" in text) is is_early
