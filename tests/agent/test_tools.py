"""What a model reads: short, useful first, and always an answer."""

import asyncio

import pytest

from nki_agent.agent.answers import write_faults
from nki_agent.agent.judging import OneJudge
from nki_agent.agent.tools import SPECS, Answer, Toolbox
from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.chip.spec import Target
from nki_agent.llm.protocol import ToolCall
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.verdict import Stage
from tests.agent.tiny import CHEAT, REFUSED, RIGHT, UNTRACEABLE, WRONG

BYTES_PER_TOKEN = 4


@pytest.fixture
def tools(task: Task, judge: Judge) -> Toolbox:
    return Toolbox(OneJudge(judge, task), target=Target.TRN2, root_seed=1)


def use(tools: Toolbox, name: str, **arguments: object) -> Answer:
    return asyncio.run(tools.call(ToolCall(id="1", name=name, arguments=arguments)))


@pytest.mark.parametrize(
    ("source", "stage"),
    [
        (CHEAT, Stage.CHEAT),
        (REFUSED, Stage.REFUSED),
        (UNTRACEABLE, Stage.UNTRACEABLE),
        (WRONG, Stage.WRONG),
        (RIGHT, Stage.RIGHT),
    ],
)
def test_verify_says_stage_and_next_step(tools: Toolbox, source: str, stage: Stage) -> None:
    answer = use(tools, "verify_kernel", source=source)
    assert answer.stage is stage
    assert answer.text.startswith(f"stage: {stage.value}\n")
    assert answer.text.splitlines()[-1].startswith("Next: ")
    assert len(answer.text.encode()) / BYTES_PER_TOKEN <= 400


def test_verify_says_how_fast_a_right_kernel_is(tools: Toolbox) -> None:
    assert "Estimated latency" in use(tools, "verify_kernel", source=RIGHT).text


def test_compile_counts_instructions_and_does_not_judge_values(tools: Toolbox) -> None:
    answer = use(tools, "compile_kernel", source=WRONG)
    assert answer.text.startswith("It compiles: 6 instructions.")


def test_compile_shows_what_stops_it(tools: Toolbox) -> None:
    answer = use(tools, "compile_kernel", source=REFUSED)
    assert "NK101" in answer.text
    assert answer.stage is Stage.REFUSED


def test_profile_says_where_time_goes(tools: Toolbox) -> None:
    text = use(tools, "profile_kernel", source=RIGHT).text
    assert "latency" in text
    assert "NK101" in use(tools, "profile_kernel", source=REFUSED).text


def test_source_left_out_means_the_last_one(tools: Toolbox) -> None:
    use(tools, "compile_kernel", source=WRONG)
    assert use(tools, "verify_kernel").stage is Stage.WRONG


@pytest.mark.parametrize("name", ["compile_kernel", "verify_kernel", "profile_kernel", "submit"])
def test_no_source_at_all_asks_for_one(tools: Toolbox, name: str) -> None:
    assert use(tools, name).text.startswith("No kernel was sent yet")
    assert tools.submitted is None


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("verify_kernel", {"source": 3}, "Expected `str | null`, got `int`"),
        ("verify_kernel", {"kernel": "x"}, "unknown field `kernel`"),
        ("look_up", {}, "missing required field `query`"),
        ("verify_kernels", {}, "did you mean `verify_kernel`?"),
        ("run", {}, "tools: compile_kernel, verify_kernel"),
    ],
)
def test_call_that_does_not_fit_is_answered(
    tools: Toolbox, name: str, arguments: dict[str, object], words: str
) -> None:
    assert words in use(tools, name, **arguments).text


def test_huge_source_is_answered(tools: Toolbox) -> None:
    assert "bytes" in use(tools, "verify_kernel", source="#" * (10 << 20)).text


def test_best_is_the_latest_of_the_furthest(tools: Toolbox) -> None:
    for source in (WRONG, RIGHT, RIGHT + "\n", REFUSED):
        use(tools, "verify_kernel", source=source)
    assert tools.best == RIGHT + "\n"
    use(tools, "submit", source=WRONG)
    assert tools.best == WRONG


def test_every_tool_is_described(tools: Toolbox) -> None:
    assert [spec.name for spec in tools.specs] == [
        "compile_kernel",
        "verify_kernel",
        "verify_many",
        "profile_kernel",
        "show_program",
        "look_up",
        "submit",
    ]
    assert all(spec.description and spec.parameters["type"] == "object" for spec in SPECS)


def test_many_faults_are_counted_not_cut() -> None:
    faults = [Diagnostic(code="NK303", what=f"fault {n}") for n in range(9)]
    others = [Diagnostic(code=f"NK10{n}", what="other") for n in range(1, 5)]
    advice = Diagnostic(code="NK601", what="slow", severity=Severity.ADVICE)
    lines = write_faults([advice, *faults, *others])
    assert lines == [
        "Repair first: NK303 fault 0",
        "The same in 8 more places.",
        "Later: NK101 other",
        "Later: NK102 other",
        "also: NK103, NK104",
    ]
