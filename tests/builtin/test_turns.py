"""Transposes of short rows and of many small matrices, and loops over time whose results turn."""

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
from tests.builtin.operators import Operator

TURNS = (
    Operator("channels last", "x.permute(0, 2, 3, 1).contiguous()", ((2, 24, 30, 41),)),
    Operator("channels first", "x.permute(0, 3, 1, 2).contiguous()", ((2, 9, 15, 50),)),
    Operator("five axes", "x.permute(0, 3, 1, 4, 2).contiguous()", ((2, 9, 6, 11, 7),)),
    Operator("many lanes", "x.permute(0, 3, 1, 4, 2).contiguous()", ((1, 3, 50, 140, 5),)),
    Operator("one row", "x.permute(2, 0, 1).contiguous()", ((1, 200, 3),)),
    Operator("repeated", "(x[:, None] * y[:, :, None]).sum(-1)", ((3, 40, 6), (3, 5, 6))),
)
OUTER = "x[:, None, :, None] * y[None, :, None, :]"
MIDDLE = (
    Operator("outer product of matrices", OUTER, ((140, 9), (5, 7))),
    Operator("with a row and a number", f"({OUTER} + z) * w", ((40, 9), (5, 7), (7,), (1,))),
    Operator("reduced", f"torch.relu({OUTER}).sum(-1)", ((40, 9), (5, 7))),
    Operator("part of a permutation", "x.permute(2, 0, 1, 3) * 2", ((6, 5, 40, 7),)),
)
LOOPS = """

def decaying(x, y, z):
    kept = torch.exp(-x.abs())[..., None] * torch.sigmoid(y)[:, :, None]
    added = x[..., None] * y[:, :, None]
    state = torch.zeros_like(added[:, 0])
    states = []
    for a, b in zip(kept.unbind(1), added.unbind(1)):
        state = a * state + b
        states.append(state)
    return (torch.stack(states, 1) * z[:, :, None]).sum(-1)


def found(x, y, z):
    written = x.unsqueeze(-1) * y.unsqueeze(-2)
    state = torch.zeros_like(written[:, 0])
    seen = []
    for new, decay in zip(written.unbind(1), torch.sigmoid(z).unbind(1)):
        seen.append(state + 0.5 * new)
        state = state * decay.unsqueeze(-1) + new
    return (x.unsqueeze(-1) * torch.stack(seen, 1)).sum(-2)
"""
SCANS = (
    Operator("states with gates", "decaying(x, y, z)", ((2, 20, 36), (2, 20, 5), (2, 20, 5))),
    Operator("one batch", "decaying(x, y, z)", ((1, 30, 140), (1, 30, 7), (1, 30, 7))),
    Operator("what steps find", "found(x, y, z)", ((2, 14, 6), (2, 14, 9), (2, 14, 6))),
    Operator("many rows of states", "found(x, y, z)", ((2, 14, 50), (2, 14, 131), (2, 14, 50))),
    Operator("a full tile", "decaying(x, y, z)", ((1, 30, 128), (1, 30, 16), (1, 30, 16))),
)


@pytest.mark.parametrize("operator", [*TURNS, *MIDDLE, *SCANS], ids=lambda o: o.name)
def test_turned_values_are_right(
    operator: Operator, make_task: MakeTask, solve: Callable[[Task], Verdict]
) -> None:
    verdict = solve(make_task(operator.source("float32") + LOOPS))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_states_are_added_up_in_their_stage(make_task: MakeTask) -> None:
    text = write_kernel(make_task(SCANS[4].source("float32") + LOOPS), Target.TRN2)
    assert text.count("tensor_tensor_scan") == 1
    assert "identity[:rows, :rows]" in text
    assert "dst=total[:, c0:end], " in text.replace("\n            ", " ")


def test_states_that_fill_the_partitions_are_added_up_there(make_task: MakeTask) -> None:
    text = write_kernel(make_task(SCANS[3].source("float32") + LOOPS), Target.TRN2)
    assert "each = min(PARTITIONS // num_rows, num_" in text
    assert "belongs[:rows, first : first + size]" in text
    # What all rows of the result share is loaded before the loop over them.
    assert len(re.findall(r"nisa\.dma_copy\(dst=hidden_\d_row, src=\w+_part\)", text)) == 1


def test_larger_states_than_the_partitions_hold_are_right(
    make_task: MakeTask, solve: Callable[[Task], Verdict]
) -> None:
    task = make_task(SCANS[2].source("float32") + LOOPS)
    larger = make_task(SCANS[3].source("float32") + LOOPS)
    verdict = solve(replace(task, perf=replace(larger.dev, name="perf")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
