"""The frozen list: which tasks the corpus has, as the package ships it.

Law: the list is compared with what a build made, task by task; the first that differs is named. A
list that is not what its own hash says is refused, never compared with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path
from typing import Final

import msgspec

from nki_agent.base.errors import MachineError
from nki_agent.base.hashes import hash_text
from nki_agent.corpus.record import CorpusTask, Split

NAME: Final = "frozen.json"
SCHEMA: Final = 1
_LETTERS: Final = {Split.TRAIN: "t", Split.VALIDATION: "v", Split.TEST: "e"}
_SPLITS: Final = {letter: split for split, letter in _LETTERS.items()}
REPAIR: Final = "install nki-agent again"


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """What a build was asked for; only the same gives the same list."""

    root: int
    candidates: int
    tasks: int
    grammar_sha256: str
    against: tuple[str, ...] = ()
    """Hashes of the folders whose tasks were kept out."""
    written_sha256: str = ""
    """Of the rows that a model wrote."""


class Frozen(msgspec.Struct, frozen=True, kw_only=True):
    """The list as it is stored."""

    schema: int = SCHEMA
    recipe: Recipe
    rows_sha256: str
    """Of `tasks.jsonl`, byte for byte."""
    list_sha256: str
    """Of `tasks` below."""
    tasks: dict[str, str]
    """The beginning of an id → its six digits and the letter of its split, for each task of it."""


def freeze(tasks: Sequence[CorpusTask], *, recipe: Recipe, rows_sha256: str) -> Frozen:
    """The list of some tasks."""
    packed = _pack(tasks)
    return Frozen(recipe=recipe, rows_sha256=rows_sha256, list_sha256=_hash(packed), tasks=packed)


def write_frozen(frozen: Frozen) -> bytes:
    """As it is stored: a line for each beginning of ids."""
    return msgspec.json.format(msgspec.json.encode(frozen), indent=1) + b"\n"


def read_frozen(path: Path | None = None) -> Frozen | None:
    """The list of the package, or of a file; None where nothing is frozen yet.

    Raises:
        MachineError: it is not what its hash says.
    """
    place = files("nki_agent.corpus").joinpath(NAME) if path is None else path
    try:
        data = place.read_bytes()
    except FileNotFoundError:
        return None
    try:
        frozen = msgspec.json.decode(data, type=Frozen)
    except msgspec.MsgspecError as error:
        raise MachineError(f"the frozen list `{place}` is broken: {error}; {REPAIR}") from error
    if _hash(frozen.tasks) != frozen.list_sha256:
        raise MachineError(
            f"the frozen list `{place}` has the hash {_hash(frozen.tasks)[:12]}, but says that it"
            f" has {frozen.list_sha256[:12]}; {REPAIR}"
        )
    return frozen


def find_difference(made: Frozen, frozen: Frozen) -> str | None:
    """The first difference in one line; None where the build reproduced the list."""
    found, expected = _unpack(made.tasks), _unpack(frozen.tasks)
    for own, other in zip_longest(found, expected):
        if own != other:
            return f"expected {_say(other)}, found {_say(own)}"
    if made.rows_sha256 != frozen.rows_sha256:
        return (
            f"the ids and splits are the same, but the rows have the hash {made.rows_sha256[:12]}"
            f" and not {frozen.rows_sha256[:12]}: bounds or tolerances come out differently"
        )
    return None


def _pack(tasks: Iterable[CorpusTask]) -> dict[str, str]:
    packed: dict[str, list[str]] = defaultdict(list)
    for task in sorted(tasks, key=lambda task: task.id):
        head, _, digits = task.id.rpartition("-")
        packed[head].append(f"{digits}{_LETTERS[task.split]}")
    return {head: " ".join(rows) for head, rows in packed.items()}


def _unpack(packed: Mapping[str, str]) -> list[tuple[str, Split]]:
    return [
        (f"{head}-{row[:-1]}", _SPLITS[row[-1:]])
        for head, rows in packed.items()
        for row in rows.split()
    ]


def _say(row: tuple[str, Split] | None) -> str:
    return "no more tasks" if row is None else f"`{row[0]}` in {row[1].value}"


def _hash(packed: Mapping[str, str]) -> str:
    return hash_text("\n".join(f"{head} {rows}" for head, rows in packed.items()))
