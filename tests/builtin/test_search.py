"""A search keeps what is faster and right, is the same each time, and any choice gives a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from nki_agent.builtin.choices import PLAIN, PROVEN, Choices, Phases, Value, list_changes
from nki_agent.builtin.search import Course, Result, Search, SearchBudget, describe_course
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

CHANGES = [*({name: value} for name, value in list_changes(Choices())), PLAIN.changes()]
OPERATORS = (
    Operator("rows", "F.gelu(torch.softmax(x * y, -1) + x)", ((300, 190), (190,))),
    Operator("linear", "F.silu(F.linear(x, y, z)) + x.sum(0)[0]", ((200, 96), (600, 96), (600,))),
    Operator("product", "x.t() @ y", ((300, 260), (300, 1100))),
    Operator(
        "attention",
        "F.scaled_dot_product_attention(x, y, z)",
        ((2, 150, 64), (2, 160, 64), (2, 160, 32)),
    ),
    Operator("convolution", "F.conv2d(x, y, padding=1)", ((2, 6, 20, 30), (8, 6, 3, 3))),
)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda o: o.name)
def test_kernel_of_any_choice_is_right(
    operator: Operator, make_task: MakeTask, judges: dict[Target, Judge]
) -> None:
    task = make_task(operator.source("bfloat16"))
    sources = {write_kernel(task, Target.TRN2, choices=Choices().but(c)) for c in CHANGES}
    for source in sources:
        verdict = judges[Target.TRN2].judge(Kernel.from_text(source), task, root_seed=1)
        assert verdict.stage is Stage.RIGHT, (verdict.diagnostics, source)


@pytest.mark.parametrize("operator", OPERATORS[:2], ids=lambda o: o.name)
def test_plain_kernel_is_one_loop_whose_tiles_are_in_sbuf(
    operator: Operator, make_task: MakeTask
) -> None:
    source = write_kernel(make_task(operator.source("float32")), Target.TRN2, choices=PLAIN)
    chosen = write_kernel(make_task(operator.source("float32")), Target.TRN2)
    assert "gpsimd" in chosen or "phase" in chosen or "nl.psum" in chosen
    assert "gpsimd" not in source
    assert "phase" not in source
    assert ("nl.psum" in source) == (operator.name == "linear")


def write(choices: Choices) -> str:
    """A text for each choice; packing changes nothing."""
    return str({k: v for k, v in choices.changes().items() if k != "packing"})


def run(
    latency: Callable[[Mapping[str, Value]], float], *, drafts: int, wrong: tuple[str, ...] = ()
) -> Course:
    """Search to the end where a kernel takes so long; those with a `wrong` choice are wrong."""
    results = {write(Choices()): Result(latency_us=latency({}), limit="dma", verdicts=(True,))}
    while True:
        course = Search(write, first=Choices(), seed=1, drafts=drafts).follow(results)
        draft = course.open
        if draft is None:
            return course
        if draft.result is None:
            found = latency(draft.choices.changes())
            results[draft.source] = Result(latency_us=found, limit="vector")
        else:
            right = not any(name in draft.choices.changes() for name in wrong)
            known = results[draft.source]
            results[draft.source] = Result(
                latency_us=known.latency_us, limit="vector", verdicts=(*known.verdicts, right)
            )


def likes_both(changes: Mapping[str, Value]) -> float:
    """Faster with wide blocks, and faster still with these and two banks."""
    gain = 0.5 if changes.get("col_block") == 4096 else 1.0
    return 100.0 * gain * (0.5 if changes.get("w_banks") == 2 else 1.0)


def test_search_adds_up_what_is_faster() -> None:
    course = run(likes_both, drafts=200)
    assert course.best.choices.changes() == {"col_block": 4096, "w_banks": 2}
    text = describe_course(course)
    assert "100.0 → 25.0 µs" in text
    assert "before: dma\nnow: vector" in text


def test_search_keeps_nothing_wrong() -> None:
    course = run(likes_both, drafts=200, wrong=("w_banks",))
    assert course.best.choices.changes() == {"col_block": 4096}
    assert "its values are wrong" in describe_course(course)


def test_search_stops_at_its_budget() -> None:
    course = run(likes_both, drafts=3)
    assert len(course.tried) == 1 + 3


def test_search_tries_no_kernel_twice_and_is_the_same_each_time() -> None:
    first, second = (run(likes_both, drafts=200) for _ in range(2))
    sources = [draft.source for draft in first.tried]
    assert len(sources) == len(set(sources))
    assert sources == [draft.source for draft in second.tried]


def test_draft_that_does_not_run_is_passed_over() -> None:
    source = write(Choices().but(dict(PROVEN[:1])))
    results = {
        write(Choices()): Result(latency_us=9.0, verdicts=(True,)),
        source: Result(latency_us=None, limit="NK205 SBUF is full"),
    }
    course = Search(write, first=Choices(), seed=1, drafts=9).follow(results)
    assert course.best is course.tried[0]
    assert course.open is not None
    assert course.open.source != source
    assert "does not run: NK205" in describe_course(course)


def test_rounded_draft_that_is_right_by_a_hair_is_not_kept() -> None:
    short = write(Choices().but({"short_tiles": True}))
    first = {write(Choices()): Result(latency_us=9.0, verdicts=(True,))}
    none, every = (write(Choices().but({"phases": p})) for p in (Phases.NONE, Phases.EVERY))
    first |= {none: Result(latency_us=9.0), every: Result(latency_us=9.0)}
    for is_close in (False, True):
        result = Result(latency_us=3.0, verdicts=(True,), is_close=is_close)
        course = Search(write, first=Choices(), seed=1, drafts=3).follow(first | {short: result})
        assert (course.best.source == short) is not is_close


def test_budget_brings_the_turns_that_it_needs() -> None:
    assert SearchBudget().turns == 0
    assert SearchBudget(drafts=5).turns > 10
    assert SearchBudget(seconds=1.0).turns > SearchBudget(drafts=100).turns
