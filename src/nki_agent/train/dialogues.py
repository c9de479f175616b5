"""Reads the dialogues that SFT learns from.

Law: a broken row is named with its file and line before anything is trained; a dialogue that is
longer than the limit is left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_bytes
from nki_agent.base.seeds import rng_for
from nki_agent.base.writing import path_error
from nki_agent.corpus.publishing import FOLDER
from nki_agent.train.config import DataPart
from nki_agent.train.tokens import Template, Tokens, writing_as


class Dialogue(msgspec.Struct, frozen=True, kw_only=True):
    """A row as far as training needs it."""

    id: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = []
    kind: str = ""
    split: str = "train"
    trained: list[bool] | None = None
    """For each message whether it is learned from; all of the assistant's where not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogues:
    """Rows in the order in which they are learned from."""

    rows: tuple[Dialogue, ...]
    digest: str
    """Of all their bytes."""


def read_dialogues(part: DataPart, *, split: str, limit: int | None, seed: int) -> Dialogues:
    """The rows of a split, shuffled.

    Raises:
        UsageError: no such file, a broken row, or no row of the split.
    """
    rows = []
    digest = ""
    for path in _list_files(Path(part.path)):
        data = _read(path)
        digest = hash_bytes(digest.encode() + data)
        for number, line in enumerate(data.splitlines(), start=1):
            if not line.strip():
                continue
            row = _decode(line, path, number)
            if row.split == split and (not part.kinds or row.kind in part.kinds):
                rows.append(row)
    if not rows:
        kinds = f" of the kinds {', '.join(part.kinds)}" if part.kinds else ""
        raise UsageError(f"{part.path} has no dialogues in the split `{split}`{kinds}")
    rows.sort(key=lambda row: row.id)
    order = rng_for(seed, "dialogues", split).permutation(len(rows))
    shuffled = tuple(rows[i] for i in order)
    return Dialogues(rows=shuffled[:limit], digest=digest)


def tokenize_all(
    dialogues: Dialogues, template: Template, *, max_tokens: int
) -> Iterator[tuple[Dialogue, Tokens | None]]:
    """Each row with its tokens; None where they are too many or none would be learned."""
    for row in dialogues.rows:
        trained = None if row.trained is None else [i for i, t in enumerate(row.trained) if t]
        with writing_as(template, f"the dialogue `{clean(row.id)}`"):
            tokens = template.tokenize(row.messages, row.tools or None, trained=trained)
        fits = len(tokens.ids) <= max_tokens and any(tokens.learned)
        yield row, tokens if fits else None


def _list_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = sorted((path / FOLDER).glob("*.jsonl"))
    if not found:
        raise UsageError(
            f"there are no dialogues in {path}",
            hint="make them with `nki-agent data trajectories`, or name a file of JSON lines",
        )
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise path_error(f"read `{path}`", error) from error


def _decode(line: bytes, path: Path, number: int) -> Dialogue:
    try:
        row = msgspec.json.decode(line, type=Dialogue)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}:{number}: no dialogue: {error}") from error
    for place, message in enumerate(row.messages, start=1):
        if not isinstance(message.get("role"), str) or not isinstance(message.get("content"), str):
            raise UsageError(f"{path}:{number}: message {place} has no role or no content")
    if row.trained is not None and len(row.trained) != len(row.messages):
        marks = f"{len(row.trained)} marks for {len(row.messages)} messages"
        raise UsageError(f"{path}:{number}: `trained` has {marks}")
    if not any(message["role"] == "assistant" for message in row.messages):
        raise UsageError(f"{path}:{number}: the assistant says nothing in it")
    return row
