"""From the name after `--model` to a model.

Law: a name that is not known, or not yet there, is an error; nothing stands in for it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

from nki_agent.base.errors import UsageError
from nki_agent.llm.protocol import Model
from nki_agent.llm.scripted import ScriptedModel, read_script

BUILTIN = "builtin"
SCRIPTED = "scripted"
PROVIDERS = ("anthropic", "bedrock", "openai", "openai-api", "hf", "recorded")
"""Names that a later version reaches through the `agent` extra."""


def choose_model(name: str, *, make_builtin: Callable[[], Model]) -> Model:
    """The model of this name; `make_builtin` is called for `builtin` only.

    Raises:
        UsageError: the name stands for no model of this version, or its script cannot be read.
    """
    if name == BUILTIN:
        return make_builtin()
    return ScriptedModel(read_script(_find_script(name)), name=name)


def require_model(name: str) -> None:
    """Refuse what `choose_model` would, before a task is loaded or a folder is made for it."""
    if name == BUILTIN:
        return
    script = _find_script(name)
    if not script.is_fifo():  # a pipe can be read once only, by `choose_model`
        read_script(script)


def _find_script(name: str) -> Path:
    """The script that a name stands for; UsageError where it stands for none."""
    kind, _, rest = name.partition("/")
    if kind == SCRIPTED and rest:
        return Path(rest)
    if kind == SCRIPTED:
        raise UsageError(f"`--model {name}` names no file", hint="`--model scripted/FILE`")
    if kind in PROVIDERS:
        raise UsageError(
            f"`--model {name}`: models behind `{kind}` arrive with the `agent` extra in a later"
            " version",
            hint="`--model builtin` works without a key",
        )
    near = difflib.get_close_matches(kind, (BUILTIN, SCRIPTED, *PROVIDERS), n=1)
    hint = f"did you mean `{near[0]}`?" if near else "`builtin`, or `scripted/FILE`"
    raise UsageError(f"no model `{name}`", hint=hint)
