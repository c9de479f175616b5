"""What a model reads: short, useful first, and always an answer."""

import asyncio

import pytest

from nki_agent.agent.ablation import Tool
from nki_agent.agent.answers import write_faults
from nki_agent.agent.judging import OneJudge
from nki_agent.agent.tools import SPECS, Answer, Toolbox
from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.chip.spec import Target
from nki_agent.llm.protocol import ToolCall
from nki_agent.mcp.desk import Calls
from nki_agent.task.task import Scope, Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage, Verdict
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


def test_profile_at_perf_is_of_the_perf_shapes(tools: Toolbox, task: Task) -> None:
    at_dev, at_perf = (
        use(tools, "profile_kernel", source=RIGHT, shapes=shapes).text for shapes in ("dev", "perf")
    )
    assert (at_dev == at_perf) is (task.dev is task.perf)
    assert "Invalid enum value" in use(tools, "profile_kernel", source=RIGHT, shapes="odd").text


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
        ("look_up", {}, "missing required field `query`. It takes `query`."),
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


def test_many_kernels_come_back_as_a_table_best_first(tools: Toolbox) -> None:
    answer = use(tools, "verify_many", sources=[WRONG, RIGHT, REFUSED, WRONG])
    lines = answer.text.splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [
        ["#2", "right"],
        ["#1", "wrong"],
        ["#3", "refused"],
    ]
    assert "NK101" in lines[3]
    assert lines[4] == "Best: #2; a call without `source` means it."
    assert lines[-1].startswith("Next: `submit`")
    assert (answer.stage, tools.best) == (Stage.RIGHT, RIGHT)
    use(tools, "submit")
    assert tools.submitted == RIGHT


def test_many_kernels_share_no_seed(tools: Toolbox) -> None:
    seeds: list[int] = []

    class Listening(OneJudge):
        async def judge(
            self, kernel: Kernel, *, root_seed: int, scope: Scope = Scope.PROOF
        ) -> Verdict:
            seeds.append(root_seed)
            return await super().judge(kernel, root_seed=root_seed, scope=scope)

    inner = tools._judging
    assert isinstance(inner, OneJudge)
    listening = Listening(inner._judge, inner._task)
    box = Toolbox(listening, target=Target.TRN2, root_seed=1)
    use(box, "verify_many", sources=[WRONG, RIGHT])
    use(box, "verify_kernel", source=REFUSED)
    assert len(set(seeds)) == 3


@pytest.mark.parametrize(
    ("sources", "words"), [([], "No kernel was sent"), ([1], "Expected `str`")]
)
def test_call_of_many_that_does_not_fit_is_answered(
    tools: Toolbox, sources: list[object], words: str
) -> None:
    assert words in use(tools, "verify_many", sources=sources).text


def test_too_many_kernels_are_refused(tools: Toolbox) -> None:
    text = use(tools, "verify_many", sources=[f"# {n}" for n in range(9)]).text
    assert "at most 8 kernels in one call" in text


def test_program_is_shown_by_source_line(tools: Toolbox) -> None:
    text = use(tools, "show_program", source=RIGHT).text
    assert "arguments: x [2, 75, 16] float32" in text
    assert "line 13, ×2: dma_copy dst=" in text
    assert "% of the chain" in text
    assert "2 on-chip tiles; the largest, in bytes of each partition:" in text
    assert "sbuf [128, 16] float32, 64 ×1" in text
    assert len(text.encode()) / BYTES_PER_TOKEN <= 400


def test_program_is_shown_around_a_line(tools: Toolbox) -> None:
    text = use(tools, "show_program", source=RIGHT, line=17).text
    assert "line 15," in text
    assert "line 13," not in text
    none = use(tools, "show_program", source=RIGHT, line=99).text
    assert none.startswith("Nothing near line 99 became an instruction; lines 13, 14, 15 did.")


def test_program_that_is_not_there_is_told_with_the_reason(tools: Toolbox) -> None:
    answer = use(tools, "show_program", source=UNTRACEABLE)
    assert answer.text.startswith("There is no Program yet.\nstage: untraceable")


def test_program_that_does_not_fit_is_shown_with_the_reason(tools: Toolbox) -> None:
    big = RIGHT.replace("(rows, 16)", "(rows, 90000)").replace("dst=tile,", "dst=tile[:, :16],")
    big = big.replace("data=tile,", "data=tile[:, :16],").replace("src=tile)", "src=tile[:, :16])")
    text = use(tools, "show_program", source=big).text
    assert "[128, 90000] float32, 360000" in text
    assert "NK205" in text


def test_only_the_chosen_tools_are_there(task: Task, judge: Judge) -> None:
    tools = Toolbox(OneJudge(judge, task), target=Target.TRN2, root_seed=1, tools=(Tool.COMPILE,))
    assert [spec.name for spec in tools.specs] == ["compile_kernel", "submit"]
    assert "There is no tool `verify_kernel`" in use(tools, "verify_kernel", source=RIGHT).text
    assert "submit" in use(tools, "compile_kernel", source=RIGHT).text
    assert "verify_kernel" not in use(tools, "compile_kernel", source=WRONG).text


@pytest.mark.parametrize(
    ("chosen", "submitted"),
    [((Tool.VERIFY,), None), ((Tool.COMPILE,), None), ((), WRONG)],
)
def test_kernel_in_a_text_goes_as_far_as_the_tools(
    task: Task, judge: Judge, chosen: tuple[Tool, ...], submitted: str | None
) -> None:
    tools = Toolbox(OneJudge(judge, task), target=Target.TRN2, root_seed=1, tools=chosen)
    asyncio.run(tools.take_text(WRONG))
    assert tools.submitted == submitted


def test_fix_that_is_mechanical_is_written_out(tools: Toolbox) -> None:
    text = use(tools, "verify_kernel", source=RIGHT.replace("op0=", "op=")).text
    assert "Write instead (this is mechanical):\n  line 14: `nisa.tensor_scalar(" in text
    assert "op0=nl.add" in text


def test_fastest_right_kernel_is_best_and_the_latest_of_equals(tools: Toolbox) -> None:
    slow = RIGHT.replace(
        "        nisa.dma_copy(dst=target",
        "        nisa.tensor_copy(dst=tile, src=tile)\n        nisa.dma_copy(dst=target",
    )
    for source in (RIGHT, slow):
        use(tools, "verify_kernel", source=source)
    assert tools.best == RIGHT


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


def test_next_step_names_only_tools_that_are_offered(task: Task, judge: Judge) -> None:
    calls = Calls(OneJudge(judge, task), target=Target.TRN2, root_seed=1)
    asked = [("compile_kernel", RIGHT), ("verify_kernel", RIGHT), ("verify_kernel", RIGHT)]
    texts = [use(calls, name, source=source).text for name, source in asked]
    texts.append(use(calls, "verify_kernels", sources=[WRONG, RIGHT]).text)
    assert all("submit" not in text for text in texts)
    assert "without `source`" not in texts[-1]
    assert "Next: make it faster" in texts[1]
    assert "There is no tool `submit`" in use(calls, "submit", source=RIGHT).text
    alone = Toolbox(OneJudge(judge, task), target=Target.TRN2, root_seed=1, tools=(Tool.PROFILE,))
    assert "verify" not in use(alone, "profile_kernel", source=RIGHT).text.splitlines()[-1]
