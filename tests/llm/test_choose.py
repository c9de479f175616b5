"""Names of models: what there is, what is missing for it, and what was probably meant."""

import asyncio
from pathlib import Path

import pytest

from nki_agent.base.errors import UsageError
from nki_agent.llm.choose import ModelSource, choose_model
from nki_agent.llm.meter import MeteredModel
from nki_agent.llm.protocol import TokenLimits
from nki_agent.llm.providers import require_packages
from nki_agent.llm.scripted import ScriptedModel

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "MY_SERVER_BASE_URL")


def choose(name: str) -> MeteredModel:
    return choose_model(name, make_builtin=lambda: ScriptedModel(["mine"], name="made here"))


def test_builtin_is_made_by_the_caller_and_costs_nothing() -> None:
    model = choose("builtin")
    assert model.name == "made here"
    reply = asyncio.run(model.reply((), tools=(), limits=TokenLimits()))
    assert (reply.text, reply.usd) == ("mine", 0.0)


def test_scripted_reads_its_file(tmp_path: Path) -> None:
    script = tmp_path / "a.jsonl"
    script.write_text('"hello"\n')
    assert choose(f"scripted/{script}").name == f"scripted/{script}"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("anthropic/some-model", "ANTHROPIC_API_KEY"),
        ("openai/m", "export OPENAI_API_KEY=…"),
        ("openai-api/my-server/m", "MY_SERVER_BASE_URL=http://HOST:PORT/v1"),
        ("openai-api/m", "--model openai-api/SERVICE/NAME"),
        ("anthropic", "--model anthropic/NAME"),
        ("hf", "--model hf/DIR"),
        ("hf/nowhere", "there is no directory `nowhere`"),
        ("recorded/x", "cannot read the recording `x`: No such file"),
        ("recorded", "--model recorded/RUN"),
    ],
)
def test_what_is_missing_is_named(name: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    pytest.importorskip("anthropic")
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    with pytest.raises(UsageError, match=words):
        choose(name)


def test_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no config\.json"):
        ModelSource(f"hf/{tmp_path}")


def test_missing_extra_names_the_command() -> None:
    with pytest.raises(UsageError, match=r"pip install '.\[agent\]'"):
        require_packages(("no_such_package",), model="anthropic/x", extra="agent")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("built-in", "did you mean `builtin`"),
        ("script/f", "did you mean `scripted`"),
        ("antropic/x", "did you mean `anthropic`"),
        ("?", "`builtin`, `scripted/FILE`"),
        ("scripted", "`--model scripted/FILE`"),
        ("builtin/x", "did you mean `builtin`"),
    ],
)
def test_unknown_model_gets_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        choose(name)
