"""Names of models: what there is, what comes later, and what was probably meant."""

from pathlib import Path

import pytest

from nki_agent.base.errors import UsageError
from nki_agent.llm.choose import choose_model
from nki_agent.llm.protocol import Model
from nki_agent.llm.scripted import ScriptedModel

BUILTIN = ScriptedModel([], name="stands for the built-in author")


def choose(name: str) -> Model:
    return choose_model(name, make_builtin=lambda: BUILTIN)


def test_builtin_is_made_by_the_caller() -> None:
    assert choose("builtin") is BUILTIN


def test_scripted_reads_its_file(tmp_path: Path) -> None:
    script = tmp_path / "a.jsonl"
    script.write_text('"hello"\n')
    assert choose(f"scripted/{script}").name == f"scripted/{script}"


@pytest.mark.parametrize("name", ["anthropic/some-model", "openai/m", "hf/dir", "recorded/x"])
def test_provider_says_that_it_comes_later(name: str) -> None:
    with pytest.raises(UsageError, match="arrive with the `agent` extra in a later version"):
        choose(name)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("built-in", "did you mean `builtin`"),
        ("script/f", "did you mean `scripted`"),
        ("antropic/x", "did you mean `anthropic`"),
        ("?", "`builtin`, or `scripted/FILE`"),
        ("scripted", "`--model scripted/FILE`"),
        ("builtin/x", "did you mean `builtin`"),
    ],
)
def test_unknown_model_gets_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        choose(name)
