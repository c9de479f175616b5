"""Attention is one stage where it fits, and its heads share what they have in common."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

Solve = Callable[..., Verdict]

DECODE = "F.softmax(x @ y.transpose(-1, -2), -1) @ y"
ONE_QUERY = ((2, 5, 1, 40), (2, 1, 150, 40))
HEADS = (
    Operator("keys that are values", DECODE, ONE_QUERY),
    Operator(
        "keys apart from values",
        "F.softmax(x @ y.transpose(-1, -2), -1) @ z",
        (*ONE_QUERY, (2, 1, 150, 24)),
    ),
    Operator(
        "scores with something added",
        "F.softmax(x @ y.transpose(-1, -2) * 0.3 + z, -1) @ y",
        (*ONE_QUERY, (2, 5, 1, 150)),
    ),
    Operator(
        "something of each head added",
        "F.softmax((x @ y.transpose(-1, -2)) * z, -1) @ y",
        (*ONE_QUERY, (5, 1, 1)),
    ),
)


@pytest.mark.parametrize(("keys", "is_fused"), [(512, True), (4096, True), (6144, False)])
def test_attention_whose_next_keys_do_not_fit_is_stored_between(
    keys: int, make_task: MakeTask, *, is_fused: bool
) -> None:
    shapes = ((2, 16, 512), (2, keys, 512))
    task = make_task(Operator("decode", DECODE, shapes).source("bfloat16"))
    text = write_kernel(task, Target.TRN2)
    assert ("exponentials(" in text) is is_fused


@pytest.mark.parametrize("operator", HEADS, ids=lambda o: o.name)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_heads_of_one_query_that_share_keys_are_one_block(
    operator: Operator, dtype: str, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source(dtype))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    kernel = write_kernel(task, Target.TRN2)
    assert "exponentials(" in kernel
    assert "for j in" not in kernel


def test_keys_that_are_values_are_loaded_once(make_task: MakeTask) -> None:
    same, other = (make_task(o.source("bfloat16")) for o in HEADS[:2])
    note = "The keys are the values"
    assert note in write_kernel(same, Target.TRN2)
    assert note not in write_kernel(other, Target.TRN2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_batches_of_one_row_that_share_weights_are_rows(
    dtype: str, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(Operator("rows", "x @ y", ((6, 5, 1, 40), (5, 40, 70))).source(dtype))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert "for j in" not in write_kernel(task, Target.TRN2)
