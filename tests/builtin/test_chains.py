"""Two products with elementwise nodes between them, and many small ones: right, and one stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

Solve = Callable[..., Verdict]

SCORES = "(x @ y.mT)"
LONG = ((2, 300, 24), (2, 300, 24), (2, 300, 24))
CHAINS = (
    Operator("causal", f"torch.tril({SCORES}) @ z", LONG),
    Operator("no query sees itself", f"torch.tril({SCORES}, -1) @ z", LONG),
    Operator("one key ahead", f"torch.tril({SCORES}, 1) @ z", LONG),
    Operator("future alone", f"torch.triu({SCORES}) @ z", LONG),
    Operator("all keys", f"torch.relu({SCORES} - 0.5) @ z", LONG),
    Operator(
        "fewer keys than queries", f"torch.sigmoid({SCORES}) @ z",
        ((2, 700, 20), (2, 150, 20), (2, 150, 30)),
    ),
    Operator(
        "decay between positions",
        f"({SCORES}[:, None] * (z[..., :1] - z[..., :1].mT)"
        ".masked_fill(torch.ones(300, 300).tril() == 0, -torch.inf).exp()) @ z",
        ((2, 300, 24), (2, 300, 24), (2, 3, 300, 24)),
    ),
    Operator(
        "values that each key scales", f"torch.tril({SCORES}) @ (z * x[..., :1])",
        ((2, 300, 24), (2, 300, 24), (2, 300, 24)),
    ),
    Operator(
        "heads that share scores, and scale keys by numbers that lie side by side",
        f"({SCORES}[:, None] * (w.mT[..., None] - w.mT[..., None, :])"
        ".masked_fill(torch.ones(300, 300, dtype=torch.bool).triu(1), -torch.inf).exp())"
        " @ (z * w.mT[..., None])",
        ((2, 300, 24), (2, 300, 24), (2, 3, 300, 24), (2, 300, 3)),
    ),
    Operator("positions that share scores", f"({SCORES} * (z[..., :1] + 1)) @ z", LONG),
)  # fmt: skip
SMALL = (
    Operator("of one tensor", "x @ x.mT * 0.5", ((150, 9, 20),)),
    Operator("of two that lie alike", "torch.relu(x @ y.mT)", ((70, 9, 20), (70, 13, 20))),
    Operator("of rows and columns", "x @ y + z", ((3, 40, 9, 20), (3, 40, 20, 13), (3, 40, 9, 13))),
)

HEADS = "(t.unflatten(-1, (2, -1)).transpose(1, 2) for t in {})"
ATTENTION = (
    Operator(
        "of windows that share a bias",
        f"F.scaled_dot_product_attention(*{HEADS.format('x.chunk(3, -1)')}, attn_mask=y)",
        ((40, 25, 48), (2, 25, 25)),
    ),
    Operator(
        "of tensors that lie apart",
        "F.scaled_dot_product_attention(x, y, z)",
        ((70, 9, 20), (70, 13, 20), (70, 13, 24)),
    ),
    Operator(
        "of heads that share keys",
        "F.scaled_dot_product_attention(x, y[:, None], y[:, None] * 1)",
        ((20, 3, 17, 16), (20, 30, 16)),
    ),
)


@pytest.mark.parametrize("operator", CHAINS, ids=lambda o: o.name)
def test_chain_is_one_stage(operator: Operator, make_task: MakeTask, solve: Solve) -> None:
    task = make_task(operator.source("float32"))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert "add_up(*block)" in write_kernel(task, Target.TRN2)


def test_heads_share_the_products_of_their_scores(make_task: MakeTask) -> None:
    shared = next(o for o in CHAINS if o.name.startswith("heads that share"))
    kernel = write_kernel(make_task(shared.source("float32")), Target.TRN2)
    assert "multiply_keys(products, " in kernel


def test_factor_of_each_key_scales_weights_and_not_values(make_task: MakeTask) -> None:
    scaled = next(o for o in CHAINS if o.name.startswith("values that each key"))
    kernel = write_kernel(make_task(scaled.source("float32")), Target.TRN2)
    assert kernel.count("def stage_") - kernel.count("def stage_1_") == 0


def test_what_minus_infinity_hides_is_hidden_behind_the_product(make_task: MakeTask) -> None:
    decay = next(o for o in CHAINS if o.name.startswith("heads that share"))
    kernel = write_kernel(make_task(decay.source("float32")), Target.TRN2)
    assert "on_false_value=0.0" in kernel
    assert "inf" not in kernel


def test_chain_of_16_bits_is_right(make_task: MakeTask, solve: Solve) -> None:
    verdict = solve(make_task(CHAINS[0].source("bfloat16")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_chain_is_right_at_other_sizes(make_task: MakeTask, solve: Solve) -> None:
    small = Operator("", CHAINS[0].body, ((1, 40, 24),) * 3)
    task = make_task(small.source("float32"))
    perf = make_task(Operator("", CHAINS[0].body, ((3, 600, 30),) * 3).source("float32")).dev
    verdict = solve(replace(task, perf=replace(perf, name="perf")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_layers_of_a_network_are_no_chain(make_task: MakeTask) -> None:
    layers = Operator("", "torch.relu(x @ y) @ z", ((2, 300, 64), (64, 256), (256, 64)))
    assert "add_up(" not in write_kernel(make_task(layers.source("float32")), Target.TRN2)


@pytest.mark.parametrize("operator", ATTENTION, ids=lambda o: o.name)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_attention_of_small_batches_shares_tiles(
    operator: Operator, dtype: str, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source(dtype))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert "turn_tiles(" in write_kernel(task, Target.TRN2)


def test_small_attention_is_right_beyond_the_partitions(make_task: MakeTask, solve: Solve) -> None:
    task = make_task(ATTENTION[1].source("float32"))
    large = Operator("", ATTENTION[1].body, ((3, 140, 20), (3, 150, 20), (3, 150, 24)))
    perf = make_task(large.source("float32")).dev
    verdict = solve(replace(task, perf=replace(perf, name="perf")))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert "turn_tiles(" in write_kernel(task, Target.TRN2)


@pytest.mark.parametrize("operator", SMALL, ids=lambda o: o.name)
def test_small_products_share_tiles(operator: Operator, make_task: MakeTask, solve: Solve) -> None:
    task = make_task(operator.source("float32"))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert "together = BANK // cols" in write_kernel(task, Target.TRN2)


def test_view_that_two_stages_read_is_turned_once(make_task: MakeTask, solve: Solve) -> None:
    body = "(torch.cumsum(x, 0), torch.cumsum(x * x, 0))"
    task = make_task(Operator("", body, ((140, 130),)).source("float32"))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
