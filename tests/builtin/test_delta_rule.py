"""Delta rules go many steps at a time, by products; any other loop goes step by step."""

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

FADE = "kept = kept * decay[:, t, :, None, None]"
CORRECT = (
    "error = value[:, t].unsqueeze(-1) - kept @ key[:, t].unsqueeze(-1)\n"
    "        kept = kept + {share} * error * key[:, t].unsqueeze(-2)"
)
SHARE = "share[:, t, :, None, None]"
READ = "seen = (kept @ query[:, t].unsqueeze(-1)).squeeze(-1)"
LINE = "\n        "
RULES = {
    "gated": LINE.join((FADE, CORRECT.format(share=SHARE), READ)),
    "without a decay": LINE.join((CORRECT.format(share=SHARE), READ)),
}
SIZES: dict[str, tuple[Shape, Shape]] = {
    "one tile of steps": ((1, 7, 4, 24, 16), (2, 6, 3, 16, 9)),
    "several tiles, the last one ragged": ((1, 150, 2, 6, 8), (2, 6, 3, 16, 9)),
    "more heads than take turns": ((1, 9, 11, 6, 8), (2, 6, 3, 16, 9)),
    "rows beyond the partitions": ((1, 5, 2, 140, 8), (2, 6, 3, 16, 9)),
}
OTHER_KEY = CORRECT.format(share=SHARE).replace("key[:, t].unsqueeze(-2)", "query[:, t, :, None]")
OTHERS = {
    "reads before it corrects": (LINE.join((FADE, READ, CORRECT.format(share=SHARE))), "0"),
    "corrects where it does not ask": (LINE.join((FADE, OTHER_KEY, READ)), "0"),
    "starts from a given state": (RULES["gated"], "value[:, 0].unsqueeze(-1)"),
}


def _rule(step: str, shape: Shape, *, start: str = "0") -> str:
    batch, steps, heads, rows, cols = shape
    return (
        f"{HEAD}\n\ndef reference(query, key, value, decay, share):\n"
        f"    kept, outs = query.new_zeros({batch}, {heads}, {rows}, {cols}) + {start}, []\n"
        "    query, key = F.normalize(query, dim=-1), F.normalize(key, dim=-1)\n"
        "    decay, share = torch.sigmoid(decay), torch.sigmoid(share)\n"
        f"    for t in range({steps}):\n        {step}\n        outs.append(seen)\n"
        "    return torch.stack(outs, 1) + 0 * (decay.sum() + share.sum())\n\n\n"
        f"def inputs():\n    short = torch.randn(2, {batch}, {steps}, {heads}, {cols})\n"
        f"    value = torch.randn({batch}, {steps}, {heads}, {rows})\n"
        f"    gates = torch.randn(2, {batch}, {steps}, {heads})\n"
        "    return [short[0], short[1], value, gates[0], gates[1]]\n"
    ).replace(" + 0, []", ", []")


def _text(make_task: MakeTask, solve: Solve, sources: tuple[str, str]) -> str:
    """The kernel, which is right at both sizes."""
    task: Task = make_task(sources[0])
    task = replace(task, perf=replace(make_task(sources[1]).dev, name="perf"))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    return write_kernel(task, Target.TRN2)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("sizes", SIZES)
def test_delta_rule_follows_many_steps_by_products(
    rule: str, sizes: str, make_task: MakeTask, solve: Solve
) -> None:
    first, second = SIZES[sizes]
    text = _text(make_task, solve, (_rule(RULES[rule], first), _rule(RULES[rule], second)))
    assert "follow_steps(" in text
    assert "for time in" not in text
    assert "for t in range(count):" not in text


@pytest.mark.parametrize("name", OTHERS)
def test_loop_that_is_no_such_rule_goes_step_by_step(
    name: str, make_task: MakeTask, solve: Solve
) -> None:
    step, start = OTHERS[name]
    first, second = SIZES["one tile of steps"]
    sources = _rule(step, first, start=start), _rule(step, second, start=start)
    assert "follow_steps(" not in _text(make_task, solve, sources)


def test_state_too_wide_for_a_bank_goes_step_by_step(make_task: MakeTask, solve: Solve) -> None:
    wide = (1, 5, 1, 6, 130)
    sources = _rule(RULES["gated"], wide), _rule(RULES["gated"], (2, 6, 3, 16, 9))
    assert "follow_steps(" not in _text(make_task, solve, sources)
