"""What is wrong with a row before a model learns it: each rule with a row that breaks it alone."""

import msgspec
import pytest

from nki_agent.base.hashes import hash_text
from nki_agent.corpus.chat import ChatCall, ChatMessage, ChatRow, FunctionCall, Kind
from nki_agent.corpus.chat_lint import lint_row, list_texts
from nki_agent.corpus.record import CorpusTask, Split
from nki_agent.llm.protocol import Json, Role
from tests.corpus.small import make_row
from tests.corpus.test_publishing import make_chat

TASK = make_row("t0", "text")
KERNEL = "import nki\n"
TOOLS: tuple[Json, ...] = tuple(
    {"type": "function", "function": {"name": name, "description": "d", "parameters": {}}}
    for name in ("verify_kernel", "submit")
)
KNOWN = {("t0", hash_text(KERNEL))}


def call(name: str, number: int, **arguments: object) -> ChatCall:
    function = FunctionCall(name=name, arguments=arguments)
    return ChatCall(id=f"{name}-{number}", function=function)


def said(text: str, *calls: ChatCall) -> ChatMessage:
    return ChatMessage(role=Role.ASSISTANT, content=text, tool_calls=calls)


def answered(to: ChatCall, text: str = "stage: right") -> ChatMessage:
    return ChatMessage(role=Role.TOOL, content=text, tool_call_id=to.id, name=to.function.name)


FIRST = call("verify_kernel", 1, source=KERNEL)
OPENING = make_chat(TASK).messages[:2]
GOOD = msgspec.structs.replace(
    make_chat(TASK, kind=Kind.AUTHOR),
    messages=(*OPENING, said("It.", FIRST), answered(FIRST), said("Done.", call("submit", 2))),
    trained=(False, False, True, False, True),
    tools=TOOLS,
    kernel_sha256=hash_text(KERNEL),
)


def lint(row: ChatRow, *, task: CorpusTask = TASK, tokens_max: int = 1000) -> list[str]:
    return list(lint_row(row, tasks={task.id: task}, kernels=KNOWN, tokens_max=tokens_max))


def with_messages(*messages: ChatMessage) -> ChatRow:
    said_by = tuple(message.role is Role.ASSISTANT for message in messages)
    return msgspec.structs.replace(GOOD, messages=messages, trained=said_by)


def test_good_row_has_nothing_wrong() -> None:
    assert lint(GOOD) == []


OTHER = call("verify_kernel", 2, source=KERNEL)
NO_TOOL = call("verify", 1, source=KERNEL)
NO_ARGUMENT = call("verify_kernel", 1, kernel=KERNEL)
BROKEN = {
    "no task `t9`": msgspec.structs.replace(GOOD, task="t9"),
    "another text": msgspec.structs.replace(GOOD, task_sha256="0"),
    "its task in train": msgspec.structs.replace(GOOD, split=Split.TEST),
    "marks of what": msgspec.structs.replace(GOOD, trained=(True,)),
    "nothing in it is trained": msgspec.structs.replace(GOOD, trained=(False,) * 5),
    "did not say": msgspec.structs.replace(GOOD, trained=(True, False, True, False, True)),
    "does not begin": with_messages(*GOOD.messages[2:]),
    "not the assistant's": with_messages(*GOOD.messages[:4]),
    "is empty": with_messages(*GOOD.messages[:4], said("")),
    "answers no call": with_messages(*OPENING, answered(FIRST), said("It.", FIRST)),
    "has no answer": with_messages(*OPENING, said("It.", FIRST), said("Done.")),
    "not offered": with_messages(*OPENING, said("It.", NO_TOOL), answered(NO_TOOL), said("D.")),
    "does not fit": with_messages(
        *OPENING, said("It.", FIRST), answered(FIRST), said("D.", NO_ARGUMENT)
    ),
    "twice": with_messages(*GOOD.messages[:4], said("Again.", OTHER)),
    "holds no kernel": with_messages(*OPENING, said("No.")),
    "not the one that its hash": msgspec.structs.replace(GOOD, kernel_sha256="1"),
    "tokens": msgspec.structs.replace(GOOD, num_tokens=2000),
}


@pytest.mark.parametrize("words", BROKEN)
def test_broken_row_is_named(words: str) -> None:
    assert any(words in finding for finding in lint(BROKEN[words]))


def test_kernel_in_no_file_of_solutions_is_named() -> None:
    found = list(lint_row(GOOD, tasks={"t0": TASK}, kernels=set()))
    assert found == ["its last kernel is in no file of solutions"]


def test_texts_hold_every_message_and_kernel() -> None:
    texts = set(list_texts(GOOD))
    assert {"rules", "task", "It.", "stage: right", "Done.", KERNEL} == texts
