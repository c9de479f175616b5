"""What steps read of a state that decays along its keys is made by products, run by run."""

from __future__ import annotations

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
Shape = tuple[int, int, int, int, int]

LEFT = "state = state * faded[:, t] + written[:, t]; seen.append(state)"
BONUS = "seen.append(state + bonus * written[:, t]); state = state * faded[:, t] + written[:, t]"
READS = {"found, and the step's own part": BONUS, "left behind": LEFT}
BY_KEYS = "decay.unsqueeze(-1)"
BY_NUMBER = "torch.full_like(written, 0.9) + 0 * decay.sum()"
BY_HEADS = "decay[:, :, :, :1, None].expand_as(written)"
BY_BOTH = "decay.unsqueeze(-1) * torch.sigmoid(value).unsqueeze(-2)"
SIZES: dict[str, tuple[Shape, Shape]] = {
    "one ragged tile of steps": ((1, 9, 2, 32, 33), (2, 7, 3, 5, 9)),
    "several tiles of steps": ((1, 150, 2, 48, 24), (2, 7, 3, 9, 5)),
    "more heads than take turns": ((1, 8, 11, 36, 32), (2, 7, 3, 9, 5)),
}


def _source(read: str, shape: Shape, faded: str = BY_KEYS) -> str:
    batch, steps, heads, keys, values = shape
    return (
        f"{HEAD}\n\ndef reference(read, key, value, decay, bonus):\n"
        "    bonus = bonus.unsqueeze(-1)\n"
        "    written = key.unsqueeze(-1) * value.unsqueeze(-2)\n"
        f"    faded = {faded}\n"
        "    state, seen = torch.zeros_like(written[:, 0]), []\n"
        f"    for t in range({steps}):\n        {read}\n"
        "    out = (read.unsqueeze(-1) * torch.stack(seen, 1)).sum(-2)\n"
        "    return out + 0 * bonus.sum()\n\n\n"
        f"def inputs():\n    sides = torch.randn(3, {batch}, {steps}, {heads}, {keys})\n"
        f"    value = torch.randn({batch}, {steps}, {heads}, {values})\n"
        f"    bonus = torch.randn({heads}, {keys})\n"
        "    return [sides[0], sides[1], value, torch.sigmoid(sides[2]), bonus]\n"
    )


def _text(make_task: MakeTask, solve: Solve, sources: tuple[str, str]) -> str:
    """The kernel, which is right at both sizes."""
    task: Task = make_task(sources[0])
    task = replace(task, perf=replace(make_task(sources[1]).dev, name="perf"))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    return write_kernel(task, Target.TRN2)


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("sizes", SIZES)
def test_pairs_of_steps_are_weighed_by_products(
    read: str, sizes: str, make_task: MakeTask, solve: Solve
) -> None:
    first, second = SIZES[sizes]
    sources = _source(READS[read], first), _source(READS[read], second)
    text = _text(make_task, solve, sources)
    assert "read_pairs(" in text
    assert "tensor_tensor_scan(" not in text


@pytest.mark.parametrize("faded", [BY_BOTH, BY_NUMBER, BY_HEADS])
def test_state_that_does_not_decay_along_its_keys_is_scanned(
    faded: str, make_task: MakeTask, solve: Solve
) -> None:
    first, second = SIZES["one ragged tile of steps"]
    sources = _source(LEFT, first, faded), _source(LEFT, second, faded)
    assert "tensor_tensor_scan(" in _text(make_task, solve, sources)


def test_small_state_is_scanned(make_task: MakeTask, solve: Solve) -> None:
    sources = _source(LEFT, (2, 7, 3, 9, 5)), _source(LEFT, (1, 9, 2, 8, 6))
    assert "tensor_tensor_scan(" in _text(make_task, solve, sources)
