"""The built-in author as a model: it works through tools, repairs what it can, then stops."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from nki_agent.agent.ablation import Tool
from nki_agent.agent.tool_specs import list_specs
from nki_agent.agent.tools import SPECS
from nki_agent.base.clock import FakeClock
from nki_agent.builtin.author import BuiltinAuthor
from nki_agent.builtin.search import SearchBudget
from nki_agent.chip.spec import Target
from nki_agent.llm.protocol import Message, Model, Reply, Role, StopReason, TokenLimits, ToolSpec
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

SOFTMAX = Operator("softmax", "F.softmax(x, -1)", ((40, 50),))
GATED = Operator("gated", "F.gelu(x) * x + 1", ((600, 5000),))
FULL = "stage: unfit\nkernel.py:9: NK205 SBUF is full\nNext: change tile sizes"


def talk(author: Model, answers: Sequence[str], tools: Sequence[ToolSpec] = SPECS) -> list[Reply]:
    """Replies to a history in which the tools give these answers."""
    history = [Message(role=Role.USER, content="the task")]
    replies = []
    for answer in [*answers, None]:
        reply = asyncio.run(author.reply(history, tools=tools, limits=TokenLimits()))
        replies.append(reply)
        if answer is None or not reply.tool_calls:
            break
        history += [
            Message(role=Role.ASSISTANT, content=reply.text, tool_calls=reply.tool_calls),
            Message(role=Role.TOOL, content=answer, tool_call_id=reply.tool_calls[0].id),
        ]
    return replies


def names(replies: Sequence[Reply]) -> list[str]:
    return [call.name for reply in replies for call in reply.tool_calls]


def test_author_compiles_verifies_profiles_and_submits(make_task: MakeTask) -> None:
    author = BuiltinAuthor(make_task(SOFTMAX.source("float32")), target=Target.TRN2)
    answers = ["It compiles: 9 instructions.", "stage: right\n3 us", "vector 50 %"]
    replies = talk(author, answers)
    assert names(replies) == ["compile_kernel", "verify_kernel", "profile_kernel", "submit"]
    assert "def kernel(x):" in replies[0].tool_calls[0].arguments["source"]


def test_author_works_with_the_tools_that_there_are(make_task: MakeTask) -> None:
    author = BuiltinAuthor(make_task(SOFTMAX.source("float32")), target=Target.TRN2)
    for tools, answers, called in (
        ((Tool.COMPILE,), ["It compiles: 9 instructions."], ["compile_kernel", "submit"]),
        ((Tool.VERIFY,), ["stage: right\n3 us"], ["verify_kernel", "submit"]),
        ((Tool.VERIFY,), [FULL] * 9, ["verify_kernel"] * 4),
        ((Tool.LOOK_UP,), [], ["submit"]),
    ):
        assert names(talk(author, answers, tools=list_specs(tools))) == called


def profile(latency_us: float) -> str:
    return (
        f"latency     {latency_us:.1f} µs on trn2\nlimited by  dma: DMA has work 90 % of the time\n"
    )


def test_budget_is_spent_on_the_perf_shapes_and_the_fastest_right_is_submitted(
    make_task: MakeTask,
) -> None:
    author = BuiltinAuthor(
        make_task(GATED.source("float32")), target=Target.TRN2, budget=SearchBudget(drafts=2)
    )
    answers = ["It compiles: 9 instructions.", "stage: right\n3 us", profile(9.0)]
    answers += [profile(4.0), "stage: right\n3 us", profile(5.0)]
    replies = talk(author, answers)
    assert names(replies) == [
        "compile_kernel", "verify_kernel", "profile_kernel",
        "profile_kernel", "verify_kernel", "profile_kernel", "submit",
    ]  # fmt: skip
    arguments = [reply.tool_calls[0].arguments for reply in replies]
    assert [a["shapes"] for a in arguments if "shapes" in a] == ["perf"] * 3
    assert arguments[-1]["source"] == arguments[3]["source"] != arguments[0]["source"]
    assert "9.0 → 4.0 µs" in replies[-1].text


def test_time_budget_ends_the_search(make_task: MakeTask) -> None:
    task = make_task(GATED.source("float32"))
    clock = FakeClock(step_ns=1_000_000_000)
    author = BuiltinAuthor(task, target=Target.TRN2, budget=SearchBudget(seconds=1.5), clock=clock)
    answers = ["It compiles: 9 instructions.", "stage: right\n3 us", profile(9.0), profile(9.0)]
    assert names(talk(author, answers))[3:] == ["profile_kernel", "submit"]


def test_full_memory_gets_smaller_tiles_a_few_times(make_task: MakeTask) -> None:
    author = BuiltinAuthor(make_task(SOFTMAX.source("float32")), target=Target.TRN2)
    replies = talk(author, [FULL] * 9)
    assert names(replies) == ["compile_kernel"] * 4
    assert replies[-1].stop is StopReason.REFUSAL
    assert "NK205" in replies[-1].text


def test_wrong_kernel_is_never_submitted(make_task: MakeTask) -> None:
    author = BuiltinAuthor(make_task(SOFTMAX.source("float32")), target=Target.TRN2)
    wrong = "stage: wrong\nNK501 output `output` in trial 0: relative L2 error is 1"
    replies = talk(author, ["It compiles: 9 instructions.", wrong])
    assert names(replies) == ["compile_kernel", "verify_kernel"]
    assert "NK501" in replies[-1].text


def test_unknown_operator_ends_with_its_name(make_task: MakeTask) -> None:
    task = make_task(Operator("unknown", "torch.special.i0e(x)", ((40, 50),)).source("float32"))
    replies = talk(BuiltinAuthor(task, target=Target.TRN2), [])
    assert replies[0].stop is StopReason.REFUSAL
    assert "aten.special_i0e" in replies[0].text


def test_single_shot_gives_the_kernel_in_one_block(make_task: MakeTask) -> None:
    author = BuiltinAuthor(make_task(SOFTMAX.source("float32")), target=Target.TRN2)
    replies = talk(author, [], tools=())
    assert replies[0].text.count("```") == 2
    assert "@nki.jit" in replies[0].text


CLOSE = "stage: right\nclose: errors reach 90 % of the limit.\n3 us"
COMPILED = "It compiles: 9 instructions."


def test_rounded_kernel_that_is_right_by_a_hair_rounds_less_and_then_nothing(
    make_task: MakeTask,
) -> None:
    author = BuiltinAuthor(make_task(GATED.source("bfloat16")), target=Target.TRN2)
    replies = talk(author, [COMPILED, CLOSE] * 3 + ["3 us"])
    assert names(replies) == ["compile_kernel", "verify_kernel"] * 3 + ["profile_kernel", "submit"]
    sources = [replies[n].tool_calls[0].arguments["source"] for n in (0, 2, 4)]
    assert [source.count("nl.bfloat16") for source in sources] == sorted(
        {source.count("nl.bfloat16") for source in sources}, reverse=True
    )


def test_kernel_without_functions_rounds_all_or_nothing(make_task: MakeTask) -> None:
    product = Operator("products", "(x * y - x) * y", ((40, 50), (40, 50)))
    author = BuiltinAuthor(make_task(product.source("bfloat16")), target=Target.TRN2)
    replies = talk(author, [COMPILED, CLOSE] * 2 + ["3 us"])
    assert names(replies) == ["compile_kernel", "verify_kernel"] * 2 + ["profile_kernel", "submit"]
