"""A scripted model says its lines in order and ends clearly."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from nki_agent.base.errors import UsageError
from nki_agent.llm.protocol import ModelError, Reply, StopReason, TokenLimits, ToolCall
from nki_agent.llm.scripted import ScriptedCall, ScriptedModel, ScriptedReply, read_script


def ask(model: ScriptedModel) -> Reply:
    return asyncio.run(model.reply((), tools=(), limits=TokenLimits()))


def test_script_is_said_in_order() -> None:
    model = ScriptedModel(["one", "two"])
    assert [ask(model).text, ask(model).text] == ["one", "two"]


def test_used_up_script_says_how_long_it_was() -> None:
    model = ScriptedModel(["one"], name="scripted/a.jsonl")
    ask(model)
    with pytest.raises(ModelError, match=r"script of `scripted/a.jsonl` ends after 1 reply"):
        ask(model)


def test_tool_calls_get_ids_of_their_place() -> None:
    calls = (ScriptedCall(name="submit"), ScriptedCall(name="look_up", arguments={"query": "exp"}))
    reply = ask(ScriptedModel([ScriptedReply(tool_calls=calls)]))
    assert reply.stop is StopReason.TOOL_CALLS
    assert reply.tool_calls == (
        ToolCall(id="call-0-0", name="submit"),
        ToolCall(id="call-0-1", name="look_up", arguments={"query": "exp"}),
    )


def test_file_of_json_lines_is_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text(
        '"plain"\n\n{"text": "t", "stop": "refusal"}\n{"tool_calls": [{"name": "x"}]}\n'
    )
    assert read_script(script) == (
        "plain",
        ScriptedReply(text="t", stop=StopReason.REFUSAL),
        ScriptedReply(tool_calls=(ScriptedCall(name="x"),)),
    )


@pytest.mark.parametrize("line", ["{", "3", '{"tool": []}', '{"tool_calls": [{"title": "x"}]}'])
def test_bad_line_is_named(tmp_path: Path, line: str) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text(f'"fine"\n{line}\n')
    with pytest.raises(UsageError, match=r"script\.jsonl:2: not a reply"):
        read_script(script)


def test_unreadable_script_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read the script .*: it is not there"):
        read_script(tmp_path / "none.jsonl")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not text in UTF-8"):
        read_script(tmp_path / "bytes")


def test_script_without_end_is_refused() -> None:
    with pytest.raises(UsageError, match="neither a regular file nor a pipe"):
        read_script(Path("/dev/zero"))


def test_script_in_a_pipe_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=('"said"\n',))
    writer.start()
    assert read_script(pipe) == ("said",)
    writer.join()
