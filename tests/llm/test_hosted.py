"""`hf/DIR`: a real small model in a server of ours, from its loading to its end with its parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from nki_agent.agent.trajectory import Turn, read_trajectory
from nki_agent.base.errors import UsageError
from nki_agent.llm.hosted import HostedModel
from tests.cli.calling import call, write_task
from tests.llm.smollm import convert

pytestmark = [
    pytest.mark.slow,
    pytest.mark.enable_socket,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(600),
]
TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Look up a word.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
    },
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = os.environ.get("NKI_AGENT_SMOLLM2")
    return Path(made) if made else convert(tmp_path_factory.mktemp("smollm2"))


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[HostedModel]:
    server = HostedModel(directory)
    yield server
    server.close()


def ask(server: HostedModel, *, key: str | None = None, **request: Any) -> tuple[int, Any]:
    body = {"model": "smollm2", "max_tokens": 12, **request}
    asked = urllib.request.Request(
        f"{server.url}/chat/completions",
        data=json.dumps(body).encode(),
        headers={"authorization": f"Bearer {key or server.key}"},
    )
    try:
        with urllib.request.urlopen(asked) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_model_answers_and_tokens_are_counted(server: HostedModel) -> None:
    messages = [{"role": "user", "content": "What is the capital of France? One word."}]
    status, reply = ask(server, messages=messages, max_tokens=24)
    assert status == 200
    assert "Paris" in reply["choices"][0]["message"]["content"]
    usage = reply["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["prompt_tokens"] > 10


def test_limit_of_tokens_is_kept_and_said(server: HostedModel) -> None:
    messages = [{"role": "user", "content": "Count from one to a hundred in words."}]
    _, reply = ask(server, messages=messages, max_tokens=5)
    assert reply["usage"]["completion_tokens"] == 5
    assert reply["choices"][0]["finish_reason"] == "length"


def test_tools_and_answers_reach_a_template_that_knows_none(server: HostedModel) -> None:
    plain = [{"role": "user", "content": "Hi."}]
    _, without = ask(server, messages=plain)
    called = {
        "id": "1",
        "type": "function",
        "function": {"name": "look_up", "arguments": '{"query": "x"}'},
    }
    talk = [
        *plain,
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "1", "content": "found " * 50},
    ]
    _, one = ask(server, messages=plain, tools=[TOOL])
    status, more = ask(server, messages=talk, tools=[TOOL])
    assert status == 200
    tokens = [reply["usage"]["prompt_tokens"] for reply in (without, one, more)]
    assert tokens[0] + 50 < tokens[1]
    assert tokens[1] + 50 < tokens[2]


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        ({"messages": []}, 400, "invalid_request"),
        ({"messages": "x"}, 400, "invalid_request"),
        ({}, 400, "invalid_request"),
        (
            {"messages": [{"role": "user", "content": "x " * 20_000}]},
            400,
            "context_length_exceeded",
        ),
    ],
)
def test_bad_request_is_answered(
    server: HostedModel, request_: dict[str, Any], status: int, code: str
) -> None:
    found, reply = ask(server, **request_)
    assert (found, reply["error"]["code"]) == (status, code)


def test_only_who_has_the_key_is_answered(server: HostedModel) -> None:
    messages = [{"role": "user", "content": "x"}]
    assert ask(server, key="guess", messages=messages)[0] == 401


def test_directory_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError, match="cannot load the model"):
        HostedModel(tmp_path)


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return b"\nState:\tZ" not in Path(f"/proc/{pid}/status").read_bytes()
    return False


def test_server_ends_with_its_killed_parent(directory: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from nki_agent.llm.hosted import HostedModel;"
        f"print(HostedModel(Path({str(directory)!r})).pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert is_alive(pid)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    for _ in range(100):
        if not is_alive(pid):
            break
        time.sleep(0.1)
    assert not is_alive(pid)


def test_small_model_writes_a_kernel_as_well_as_it_can(
    directory: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("openai")
    fixed = ("--turns", 2, "--reply-tokens", 64, "--json")
    model = ("--model", f"hf/{directory}", "--gpu-hour", 1.0, "--runs", tmp_path / "runs")
    called = call("solve", write_task(tmp_path), *model, *fixed)
    assert called.code == 1, called.err
    report = called.document
    assert report["end"] in ("turns", "no_kernel")
    assert report["turns"] == 2
    assert report["usage"]["input_tokens"] > 1000
    assert 0 < report["usage"]["output_tokens"] <= 128
    assert report["usd"] > 0
    assert "Loading weights" not in capfd.readouterr().err
    (run,) = (tmp_path / "runs").iterdir()
    said = [e.reply.text for e in read_trajectory(run / "trajectory.jsonl") if isinstance(e, Turn)]
    recorded = ("--model", f"recorded/{run}", "--runs", tmp_path / "b")
    again = call("solve", write_task(tmp_path), *recorded, *fixed)
    assert again.document["end"] == report["end"]
    (other,) = (tmp_path / "b").iterdir()
    repeated = read_trajectory(other / "trajectory.jsonl")
    assert [e.reply.text for e in repeated if isinstance(e, Turn)] == said
