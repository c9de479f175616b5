"""Attention whose scores have the keys on the partitions, and what is added to scores."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.task.task import Task
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

Solve = Callable[[Task], Verdict]
AHEAD = "(torch.arange(x.shape[-2])[:, None] - torch.arange(y.shape[-2]))"
TURNED = (
    Operator("whole groups and a rest", "F.scaled_dot_product_attention(x, y, z)",
             ((1, 1190, 40), (1, 300, 40), (1, 300, 24))),
    Operator("deep heads", "F.scaled_dot_product_attention(x, y, z, is_causal=True)",
             ((2, 530, 128), (2, 530, 128), (2, 530, 128))),
    Operator("causal groups", "F.scaled_dot_product_attention(x, y, z, is_causal=True)",
             ((1, 1100, 32), (1, 1100, 32), (1, 1100, 64))),
    Operator("narrow window", f"F.scaled_dot_product_attention(x, y, z, attn_mask="
             f"({AHEAD} >= 0) & ({AHEAD} < 50))", ((2, 400, 32), (2, 400, 32), (2, 400, 32))),
    Operator("wide window", f"F.scaled_dot_product_attention(x, y, z, attn_mask="
             f"({AHEAD} >= 0) & ({AHEAD} < 555))", ((1, 1300, 32), (1, 1300, 32), (1, 1300, 32))),
    Operator("chunk", f"F.scaled_dot_product_attention(x, y, z, attn_mask={AHEAD} >= -70)",
             ((2, 150, 32), (2, 220, 32), (2, 220, 32))),
    Operator("later keys", f"F.scaled_dot_product_attention(x, y, z, attn_mask={AHEAD} < 20)",
             ((2, 300, 32), (2, 300, 32), (2, 300, 32))),
)  # fmt: skip
LARGE = Operator(
    "large scores", "F.scaled_dot_product_attention(x * 10, y * 10, z)",
    ((2, 150, 40), (2, 130, 40), (2, 130, 24)),
)  # fmt: skip
CAPPED = (
    Operator("whole", "torch.softmax(20 * torch.tanh(x @ y.transpose(-1, -2) / 20), -1) @ z",
             ((2, 300, 40), (2, 200, 40), (2, 200, 24))),
    Operator("causal", "torch.softmax((5 * torch.tanh(x @ y.transpose(-1, -2) / 5)).masked_fill("
             f"{AHEAD} < 0, float('-inf')), -1) @ z", ((2, 650, 40), (2, 650, 40), (2, 650, 128))),
)  # fmt: skip
LOOSE = Operator(
    "loose", "torch.softmax(90 * torch.tanh(x @ y.transpose(-1, -2) / 90), -1) @ z",
    ((2, 300, 40), (2, 200, 40), (2, 200, 24)),
)  # fmt: skip
DECODE = Operator(
    "decode", "F.scaled_dot_product_attention(x, y, z, attn_mask=(w > -1)[:, None, None])",
    ((2, 3, 4, 32), (2, 3, 1500, 32), (2, 3, 1500, 32), (2, 1500)),
)  # fmt: skip
DOCUMENTS = Operator(
    "documents", "F.scaled_dot_product_attention(x, y, z, attn_mask="
    "((w > 0)[:, None] == (w > 0)[None, :]) & (torch.arange(150)[:, None] >= torch.arange(150)))",
    ((2, 150, 32), (2, 150, 32), (2, 150, 32), (150,)),
)  # fmt: skip
SLOPES = Operator(
    "slopes", "F.scaled_dot_product_attention(x, y, z, attn_mask="
    f"(-w.abs()[:, None, None] * {AHEAD}).masked_fill({AHEAD} < 0, float('-inf')))",
    ((2, 3, 300, 40), (2, 3, 300, 40), (2, 3, 300, 40), (3,)),
)  # fmt: skip


def _is_right(task: Task, solve: Solve) -> None:
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


@pytest.mark.parametrize("operator", TURNED, ids=lambda o: o.name)
def test_attention_of_16_bits_takes_maxima_and_turns_no_weights(
    operator: Operator, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source("bfloat16"))
    text = write_kernel(task, Target.TRN2)
    assert "take_maxima(" in text
    assert "weights_turned" not in text
    _is_right(task, solve)


def test_scores_so_large_that_their_rounding_overflows_are_right(
    make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(LARGE.source("bfloat16"))
    assert "take_maxima(" in write_kernel(task, Target.TRN2)
    _is_right(task, solve)


@pytest.mark.parametrize("operator", CAPPED, ids=lambda o: o.name)
def test_scores_under_a_low_cap_need_no_maximum(
    operator: Operator, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source("bfloat16"))
    text = write_kernel(task, Target.TRN2)
    assert "cap_keys(" in text
    assert "nl.maximum" not in text
    _is_right(task, solve)


def test_scores_under_a_cap_whose_exponential_overflows_have_their_maximum_taken(
    make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(LOOSE.source("bfloat16"))
    assert "nl.maximum" in write_kernel(task, Target.TRN2)
    _is_right(task, solve)


def test_few_queries_take_values_in_runs_and_a_mask_by_the_tensor_engine(
    make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(DECODE.source("bfloat16"))
    text = write_kernel(task, Target.TRN2)
    assert "turn_steps(" in text
    assert "tensor_copy_predicated" not in text
    _is_right(task, solve)


@pytest.mark.parametrize("operator", [SLOPES], ids=lambda o: o.name)
def test_a_slope_over_distances_is_a_row_of_the_product(
    operator: Operator, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source("float32"))
    assert "slope_row" in write_kernel(task, Target.TRN2)
    _is_right(task, solve)


def test_keys_of_other_documents_are_hidden_in_psum(make_task: MakeTask, solve: Solve) -> None:
    task = make_task(DOCUMENTS.source("float32"))
    text = write_kernel(task, Target.TRN2)
    assert "tensor_copy_predicated" not in text
    _is_right(task, solve)
