"""A skill folder for coding agents: instructions, and the reference that an agent needs.

Law: the reference is made from `isa`, `chip`, the catalogue and the judged patterns, so it is that
of the installed version. What is
not ours, or was changed since, is written over only by force.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from importlib.resources import files
from pathlib import Path, PurePosixPath
from string import Template

import msgspec

from nki_agent import __version__
from nki_agent.agent.cards import Card, CardKind, make_cards
from nki_agent.agent.patterns import make_patterns
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_text
from nki_agent.chip.spec import Target, load_chip

NAME = "nki-kernels"
MAIN = "SKILL.md"
WRITTEN = ".nki-agent.json"
"""Hashes of what was written, by which a later version knows its own."""
MARK = "generated-by: nki-agent"
SHOWN_MAX = 5
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


def write_skill(folder: Path, *, target: Target, forces: bool = False) -> tuple[Path, ...]:
    """Write the skill's files to a folder, in the place of an older one of ours.

    With `forces`, whatever has their names is written over.

    Raises:
        UsageError: the folder holds what is not ours, or cannot be written.
    """
    try:
        texts = make_skill(name=make_name(folder), target=target)
        listed = _read_list(folder)
        if not forces:
            _require_own(folder, texts, listed)
        written = []
        for name, text in texts.items():
            path = folder / PurePosixPath(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            written.append(path)
        _drop_old(folder, listed, texts)
        hashes = {name: hash_text(text) for name, text in texts.items()}
        (folder / WRITTEN).write_bytes(msgspec.json.format(msgspec.json.encode(hashes)))
    except OSError as error:
        raise UsageError(f"cannot write the skill to `{folder}`: {error.strerror}") from error
    return tuple(written)


def _read_list(folder: Path) -> dict[str, str]:
    """What was written by us, by name with its hash; empty where that is not known."""
    try:
        listed = msgspec.json.decode((folder / WRITTEN).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}
    inside = (name for name in listed if ".." not in PurePosixPath(name).parts)
    return {name: listed[name] for name in inside if not PurePosixPath(name).is_absolute()}


def _require_own(folder: Path, texts: Mapping[str, str], listed: Mapping[str, str]) -> None:
    """Refuse to write over, or among, what is not ours."""
    if not folder.exists():
        return
    present = [name for name in texts if _is_there(folder, name)]
    foreign = [name for name in present if not _is_own(folder, name, texts, listed)]
    hint = "name another folder, or write over them with `--force`"
    if foreign:
        names = ", ".join(f"`{name}`" for name in foreign)
        which = "which is not its own" if len(foreign) == 1 else "which are not its own"
        raise UsageError(f"the skill would write over {names}, {which}, in `{folder}`", hint=hint)
    others = sorted(path.name for path in folder.iterdir())
    if others and not present:
        names = ", ".join(f"`{name}`" for name in others[:SHOWN_MAX])
        more = f" and {len(others) - SHOWN_MAX} more" if len(others) > SHOWN_MAX else ""
        raise UsageError(
            f"`{folder}` holds other files: {names}{more}",
            hint="name a new folder, or a project with `--for AGENT`; `--force` writes among them",
        )


def _is_there(folder: Path, name: str) -> bool:
    """Whether something has the name; a link on the way is something, wherever it leads."""
    path = folder / PurePosixPath(name)
    return path.exists() or path.is_symlink() or path.parent.is_symlink()


def _is_own(folder: Path, name: str, texts: Mapping[str, str], listed: Mapping[str, str]) -> bool:
    path = folder / PurePosixPath(name)
    if not path.is_file() or path.is_symlink() or path.parent.is_symlink():
        return False
    text = path.read_text(encoding="utf-8", errors="replace")
    if text == texts[name] or hash_text(text) == listed.get(name):
        return True
    # Versions before the list had the mark alone.
    main = folder / MAIN
    has_mark = main.is_file() and MARK in main.read_text(encoding="utf-8", errors="replace")
    return not (folder / WRITTEN).exists() and has_mark


def _drop_old(folder: Path, listed: Mapping[str, str], texts: Mapping[str, str]) -> None:
    """Take away what an earlier version wrote and this one does not, if it is as it was."""
    for name in listed.keys() - texts.keys():
        path = folder / PurePosixPath(name)
        if path.is_file() and not path.is_symlink():
            text = path.read_text(encoding="utf-8", errors="replace")
            if hash_text(text) == listed[name]:
                path.unlink()


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
