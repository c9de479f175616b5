"""A skill folder for coding agents: instructions, and the reference that an agent needs.

Law: the reference is made from `isa`, `chip`, the catalogue and the judged patterns, so it is that
of the installed version. A folder that holds another's skill is not written over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from importlib.resources import files
from pathlib import Path, PurePosixPath
from string import Template

from nki_agent import __version__
from nki_agent.agent.cards import Card, CardKind, make_cards
from nki_agent.agent.patterns import make_patterns
from nki_agent.base.errors import UsageError
from nki_agent.chip.spec import Target, load_chip

NAME = "nki-kernels"
MAIN = "SKILL.md"
MARK = "generated-by: nki-agent"
NAME_LENGTH_MAX = 64
"""Of the open format for skills; a name is that of its folder."""


class Agent(StrEnum):
    """Coding agents by the folder in a project in which they look for skills."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    COPILOT = "copilot"
    CURSOR = "cursor"
    GEMINI_CLI = "gemini-cli"


FOLDERS: Mapping[Agent, str] = {
    Agent.CLAUDE_CODE: ".claude/skills",
    Agent.CODEX: ".agents/skills",
    Agent.COPILOT: ".github/skills",
    Agent.CURSOR: ".cursor/skills",
    Agent.GEMINI_CLI: ".gemini/skills",
}


def place_skill(folder: Path, agent: Agent | None) -> Path:
    """Where the skill goes: the folder itself, or the agent's place in a project."""
    return folder if agent is None else folder / FOLDERS[agent] / NAME


def write_skill(folder: Path, *, target: Target) -> tuple[Path, ...]:
    """Write the skill's files to a folder, in the place of an older one of ours.

    Raises:
        UsageError: the folder holds another's skill, or cannot be written.
    """
    main = folder / MAIN
    try:
        if main.exists() and MARK not in main.read_text(encoding="utf-8", errors="replace"):
            raise UsageError(f"`{main}` is not ours", hint="name another folder")
        written = []
        for name, text in make_skill(name=make_name(folder), target=target).items():
            path = folder / PurePosixPath(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            written.append(path)
    except OSError as error:
        raise UsageError(f"cannot write the skill to `{folder}`: {error.strerror}") from error
    return tuple(written)


def make_name(folder: Path) -> str:
    """The skill's name: that of its folder, as the format wants it."""
    slug = re.sub(r"[^a-z0-9]+", "-", folder.absolute().name.lower()).strip("-")
    return slug[:NAME_LENGTH_MAX].rstrip("-") or NAME


def make_skill(*, name: str, target: Target) -> dict[str, str]:
    """The texts of a skill by their place in its folder."""
    cards = make_cards(target)
    main = files("nki_agent.agent").joinpath("outside", "skill.md").read_text(encoding="utf-8")
    return {
        MAIN: Template(main).substitute(
            name=name,
            version=__version__,
            target=target.value,
            partitions=load_chip(target).partitions,
        ),
        "references/patterns.md": _write_patterns(target),
        "references/limits.md": _write_limits(),
        "references/instructions.md": _write_cards(
            f"Instructions on {target.value}", cards, CardKind.INSTRUCTION
        ),
        "references/operators.md": _write_cards(
            "Operators and functions", cards, CardKind.OPERATOR, CardKind.FUNCTION
        ),
        "references/diagnostics.md": _write_cards("Diagnostic codes", cards, CardKind.CODE),
    }


def _write_cards(title: str, cards: tuple[Card, ...], *kinds: CardKind) -> str:
    def write() -> Iterator[str]:
        yield f"# {title}\n"
        for card in cards:
            if card.kind not in kinds:
                continue
            if card.kind is CardKind.CODE:
                head, *rest = card.text.splitlines()
                yield f"\n## {head}\n\n{' '.join(rest)}"
            elif card.kind is CardKind.OPERATOR:
                yield from (f"- {line}" for line in card.text.splitlines())
            else:
                yield f"\n## {card.names[0]}\n\n```text\n{card.text}\n```"

    return "\n".join(write()) + "\n"


def _write_patterns(target: Target) -> str:
    """Whole kernels, one below another, then the guides."""
    parts = ["# Patterns and guides"]
    for pattern in sorted(make_patterns(target), key=lambda pattern: not pattern.body):
        parts += [f"## {pattern.title}", *([pattern.about] if pattern.about else ())]
        if pattern.body:
            parts.append(f"```python\n{pattern.kernel}```")
    return "\n\n".join(parts) + "\n"


def _write_limits() -> str:
    parts = ["# Limits\n"]
    for target in Target:
        (card,) = (card for card in make_cards(target) if card.kind is CardKind.LIMITS)
        head, *lines = card.text.splitlines()
        parts += [f"## {head}\n", *(f"- {line}" for line in lines), ""]
    return "\n".join(parts)
