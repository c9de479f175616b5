"""The built-in author as a model: it works through tools, repairs what it can, then stops."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from nki_agent.agent.tools import SPECS
from nki_agent.builtin.author import BuiltinAuthor
from nki_agent.chip.spec import Target
from nki_agent.llm.protocol import Message, Model, Reply, Role, StopReason, TokenLimits, ToolSpec
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

SOFTMAX = Operator("softmax", "F.softmax(x, -1)", ((40, 50),))
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
