"""A provider that says our key again: nothing that leaves the process holds it."""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")
pytest.importorskip("openai")
pytest.importorskip("anthropic")

from nki_agent.cli.command import write_crash_log
from nki_agent.llm.inspect_model import InspectModel, RetryPolicy
from nki_agent.llm.keys import hide_in, hide_keys, hide_secrets
from nki_agent.llm.protocol import Message, ModelError, Reply, Role, TokenLimits
from nki_agent.llm.providers import make_inspect_model
from tests.agent.tiny import RIGHT
from tests.cli.calling import call, write_task
from tests.llm.server import KEY, Drop, Fail, Raw, Say, Step, Wire, openai_body, serve

pytestmark = [pytest.mark.enable_socket, pytest.mark.filterwarnings("ignore")]
ANTHROPIC, OPENAI, RESPONSES, COMPATIBLE = (
    "anthropic/claude-sonnet-4-5",
    "openai/gpt-4o",
    "openai/gpt-5",
    "openai-api/my/m",
)
EACH = pytest.mark.parametrize("name", [ANTHROPIC, OPENAI, RESPONSES, COMPATIBLE])


@pytest.fixture(autouse=True)
def _settle() -> Iterator[None]:
    yield
    gc.collect()


def point_to(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "MY_API_KEY"):
        monkeypatch.setenv(variable, KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.url)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{wire.url}/v1")
    monkeypatch.setenv("MY_BASE_URL", f"{wire.url}/v1")


def ask(name: str) -> Reply:
    async def run() -> Reply:
        model = InspectModel(make_inspect_model(name), policy=RetryPolicy(requests=1, lost=1))
        return await model.reply(
            (Message(role=Role.USER, content="Write one."),), tools=(), limits=TokenLimits()
        )

    return asyncio.run(run())


@EACH
def test_key_in_a_reply_is_hidden_in_every_part(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: tuple[tuple[str, Any], ...] = (
        ("look_up", {"query": f"a {KEY} b", "more": [{KEY: KEY}]}),
        (KEY, {}),
    )
    with serve(Say(text=f"I have {KEY}.", calls=calls)) as wire:
        point_to(wire, monkeypatch)
        reply = ask(name)
    assert KEY not in repr(reply)
    assert reply.text.startswith("I have [")
    assert reply.text.endswith("_API_KEY].")
    assert reply.tool_calls[0].arguments["query"].endswith("_API_KEY] b")


@EACH
def test_key_in_a_run_is_nowhere_in_its_folder_or_words(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = f"# {KEY}\n{RIGHT}"
    steps: tuple[Step, ...] = (
        Say(text=f"key {KEY}", calls=(("look_up", {"query": KEY}), (KEY, {"source": KEY}))),
        Say(calls=(("submit", {"source": kernel}),)),
    )
    shown = ("--conversation", "--json", "--runs", tmp_path / "runs")
    with serve(*steps) as wire:
        point_to(wire, monkeypatch)
        called = call("solve", write_task(tmp_path), "--model", name, *shown)
    assert (called.code, called.document["end"]) == (0, "solved"), called.err
    (run,) = (tmp_path / "runs").iterdir()
    again = call("replay", run)
    call("report", run)
    kept = b"".join(f.read_bytes() for f in run.rglob("*") if f.is_file())
    assert KEY.encode() not in kept
    assert KEY not in called.out + called.err + again.out + again.err
    assert b"_API_KEY]" in kept


@EACH
@pytest.mark.parametrize(
    "step",
    [
        Fail(status=400, message=f"bad {KEY}"),
        Fail(status=503, code="overloaded_error", message=f"busy {KEY}", retry_after="3600"),
        Raw(body=json.dumps({"error": {"message": f"no {KEY}", "code": KEY}}).encode()),
        Raw(body=f"<html>{KEY}</html>".encode()),
        Drop(after_bytes=40),
    ],
    ids=["refused", "busy", "error-in-200", "no-json", "torn"],
)
def test_key_in_an_error_is_hidden(name: str, step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(step) as wire:
        point_to(wire, monkeypatch)
        try:
            said = repr(ask(name))
        except ModelError as error:
            said = str(error)
    assert KEY not in said


def test_log_of_inspect_has_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inspect_ai = importlib.import_module("inspect_ai")
    steps: tuple[Step, ...] = (
        Say(text=f"key {KEY}", calls=(("look_up", {"query": KEY}),)),
        Fail(status=400, code="invalid_request_error", message=f"bad {KEY}"),
    )
    with serve(*steps) as wire:
        point_to(wire, monkeypatch)
        given = {"split": "smoke-12", "workers": 1, "seed": 3}
        (log,) = inspect_ai.eval(
            "nki_agent/nkibench",
            model=COMPATIBLE,
            task_args=given,
            sample_id="l1-relu-1d-bf16",
            display="none",
            log_dir=str(tmp_path),
            log_format="json",
            log_model_api=True,
        )
    (file,) = tmp_path.glob("*.json")
    text = file.read_text()
    assert log.samples
    assert "_API_KEY]" in text
    assert KEY not in text
    assert KEY not in log.model_dump_json()


def test_key_that_is_split_between_parts_of_a_text_is_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body: dict[str, Any] = openai_body(Say(text="x"), "m")
    parts = [{"type": "text", "text": part} for part in (KEY[:9], KEY[9:])]
    body["choices"][0]["message"]["content"] = parts
    with serve(Raw(body=json.dumps(body).encode())) as wire:
        point_to(wire, monkeypatch)
        try:
            said = repr(ask(COMPATIBLE))
        except ModelError as error:
            said = str(error)
    assert KEY not in said


def test_only_what_a_provider_reads_is_hidden_in_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVICE_API_KEY", "long-enough-key")
    monkeypatch.setenv("OTHER_API_KEY", "long-enough-key-and-more")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session-of-aws")
    monkeypatch.setenv("SHORT_API_KEY", "import")
    monkeypatch.setenv("WORD_API_KEY", "language")
    monkeypatch.setenv("LETTERS_API_KEY", "qwertyuiopasdfghjkl")
    monkeypatch.setenv("TOKENIZER_KEYBOARD", "nki.language")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:proxy-secret@host:3128")
    text = "import nki.language long-enough-key-and-more long-enough-key session-of-aws"
    assert hide_keys(text) == (
        "import nki.language [OTHER_API_KEY] [MY_SERVICE_API_KEY] [AWS_SESSION_TOKEN]"
    )
    assert hide_keys("via http://user:proxy-secret@host:3128") == (
        "via http://user:[HTTPS_PROXY]@host:3128"
    )
    assert hide_keys("qwertyuiopasdfghjkl") == "[LETTERS_API_KEY]"
    assert "nki.language" not in hide_secrets(text)
    assert hide_in({"long-enough-key": ["session-of-aws", 1, None]}) == {
        "[MY_SERVICE_API_KEY]": ["[AWS_SESSION_TOKEN]", 1, None]
    }


def test_traceback_of_a_bug_has_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", KEY)
    path = write_crash_log(RuntimeError(f"headers: {KEY}"))
    try:
        assert "headers: [MY_API_KEY]" in path.read_text()
    finally:
        path.unlink()
