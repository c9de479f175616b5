"""Rows of every kind for one task: real answers, right last kernels, and the form of a chat."""

from collections.abc import Iterator

import msgspec
import pytest

from nki_agent.chip.spec import Target
from nki_agent.corpus.chat import ChatRow, Kind, list_kernels
from nki_agent.corpus.chat_lint import find_last, lint_row
from nki_agent.corpus.desk import Desk
from nki_agent.corpus.making import Made, MakeOrder, make_kind
from nki_agent.corpus.record import CorpusTask, Solution
from nki_agent.corpus.repairing import make_repairs
from nki_agent.corpus.solving import SolveOrder, solve_one
from nki_agent.corpus.speeding import make_optimization
from nki_agent.llm.protocol import Role
from tests.corpus.small import bench_row

TASK = "l1-mul-rowvec-2d-bf16"


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.close()


@pytest.fixture(scope="module")
def row() -> CorpusTask:
    return bench_row(TASK)


@pytest.fixture(scope="module")
def solution(desk: Desk, row: CorpusTask) -> Solution:
    solved = solve_one(SolveOrder(row=row, target=Target.TRN2, root_seed=0), desk).solution
    assert solved is not None
    return solved


def make(kind: Kind, row: CorpusTask, solution: Solution, desk: Desk) -> Made:
    order = MakeOrder(row=row, solution=solution, kinds=(kind,), root_seed=0, repairs=2)
    return make_kind(order, kind, desk)


def find_faults(made: Made, row: CorpusTask, solution: Solution) -> list[str]:
    known = {(s.task, s.kernel_sha256) for s in (solution, *made.proofs)}
    return [f for r in made.rows for f in lint_row(r, tasks={row.id: row}, kernels=known)]


def said(row: ChatRow) -> list[str]:
    return [m.content for m in row.messages if m.role is Role.ASSISTANT]


def test_author_episode_is_told_as_it_was(row: CorpusTask, solution: Solution, desk: Desk) -> None:
    made = make(Kind.AUTHOR, row, solution, desk)
    (found,) = made.rows
    assert find_faults(made, row, solution) == []
    calls = [c.function.name for m in found.messages for c in m.tool_calls]
    assert calls == ["compile_kernel", "verify_kernel", "profile_kernel", "submit"]
    answers = [m for m in found.messages if m.role is Role.TOOL]
    assert [a.name for a in answers] == calls[:-1]
    assert answers[1].content.startswith("stage: right")
    assert found.kernel_sha256 == solution.kernel_sha256
    assert made.proofs == ()


def test_single_shot_has_no_tools_and_the_whole_kernel(
    row: CorpusTask, solution: Solution, desk: Desk
) -> None:
    made = make(Kind.SINGLE_SHOT, row, solution, desk)
    (found,) = made.rows
    assert find_faults(made, row, solution) == []
    assert found.tools == ()
    assert [m.role for m in found.messages] == [Role.SYSTEM, Role.USER, Role.ASSISTANT]
    assert find_last(found.messages) == solution.kernel


def test_repairs_show_the_fault_and_never_train_it(
    row: CorpusTask, solution: Solution, desk: Desk
) -> None:
    found = make_repairs(row, solution, number=6, root_seed=0, desk=desk)
    assert len(found.drafts) == 6
    assert len({draft.fault.partition("/")[0] for draft in found.drafts}) == 6
    for draft in found.drafts:
        kernels = list_kernels(draft.messages)
        assert kernels[-1] == solution.kernel
        assert draft.stages[-1] == "right"
        trained = [
            call.function.arguments.get("source")
            for message, is_trained in zip(draft.messages, draft.trained, strict=True)
            for call in message.tool_calls
            if is_trained
        ]
        assert set(trained) <= {solution.kernel, None}
        if len(kernels) == 1:  # the faulty kernel is the user's
            assert "stage: " in draft.messages[1].content
        else:
            assert draft.stages[0] != "right"


def test_repairs_are_the_same_each_time(row: CorpusTask, solution: Solution, desk: Desk) -> None:
    first = make(Kind.REPAIR, row, solution, desk)
    assert first == make(Kind.REPAIR, row, solution, desk)
    assert find_faults(first, row, solution) == []


def test_every_step_of_an_optimization_is_faster(
    row: CorpusTask, solution: Solution, desk: Desk
) -> None:
    draft, verdict, why = make_optimization(row, solution, root_seed=0, desk=desk)
    assert draft is not None, why
    assert verdict is not None
    assert verdict.right
    profiles = [
        m.content for m in draft.messages if m.role is Role.TOOL and m.name == "profile_kernel"
    ]
    latencies = [float(text.split()[1]) for text in profiles]
    assert latencies == sorted(latencies, reverse=True)
    assert latencies[-1] < 0.95 * latencies[0]
    assert draft.kernel == list_kernels(draft.messages)[-1]


def test_short_row_is_judged_too(row: CorpusTask, solution: Solution, desk: Desk) -> None:
    made = make(Kind.SHORT, row, solution, desk)
    (found,) = made.rows
    assert find_faults(made, row, solution) == []
    (proof,) = made.proofs
    assert proof.kernel_sha256 == found.kernel_sha256


def test_kinds_that_need_a_model_are_not_made(
    row: CorpusTask, solution: Solution, desk: Desk
) -> None:
    with pytest.raises(ValueError, match="needs a model"):
        make(Kind.SAMPLED, row, solution, desk)


def test_chat_template_of_a_coder_takes_a_row(
    row: CorpusTask, solution: Solution, desk: Desk
) -> None:
    """A template that walks through tools, calls and their arguments, as Qwen3-Coder's does."""
    jinja2 = pytest.importorskip("jinja2")
    (found,) = make(Kind.REPAIR, row, solution, desk).rows[:1]
    plain = msgspec.to_builtins(found)
    text = jinja2.Template(TEMPLATE).render(messages=plain["messages"], tools=plain["tools"])
    assert "<function=verify_kernel>\n<parameter=source>\n" in text
    assert solution.kernel in text
    assert "\nNone\n</parameter>" not in text


TEMPLATE = """{% for tool in tools %}<tool>{{ tool.function.name }}: \
{{ tool.function.description }}</tool>
{% endfor %}{% for m in messages %}<|{{ m.role }}|>
{{ m.content }}{% for c in m.tool_calls %}
<tool_call>
<function={{ c.function.name }}>
{% for name, value in c.function.arguments|items %}<parameter={{ name }}>
{{ value }}
</parameter>
{% endfor %}</function>
</tool_call>{% endfor %}
{% endfor %}"""
