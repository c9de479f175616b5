"""Splits of the benchmark: frozen lists of tasks, each with its hash.

Law: a split whose list is not the one that its hash says is refused.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Sequence
from pathlib import Path

import msgspec

from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_text

SPLITS = Path(__file__).parent / "splits.toml"


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """A named list of tasks."""

    name: str
    hash: str
    tasks: tuple[str, ...]


class SplitsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of `splits.toml`."""

    version: str
    split: tuple[Split, ...]


def hash_split(tasks: Sequence[str]) -> str:
    """Of the ids in their order."""
    return hash_text("\n".join(tasks))


@functools.cache
def read_splits() -> dict[str, Split]:
    """The splits of our own suite by name.

    Raises:
        UsageError: a list was changed without its hash.
    """
    record = msgspec.toml.decode(SPLITS.read_bytes(), type=SplitsRecord)
    for split in record.split:
        if hash_split(split.tasks) != split.hash:
            raise UsageError(
                f"the split `{split.name}` is not the one that was frozen",
                hint="install nki-agent again",
            )
    return {split.name: split for split in record.split}


def find_split(name: str) -> Split:
    """The split of this name.

    Raises:
        UsageError: there is none; the hint names the nearest.
    """
    splits = read_splits()
    if name in splits:
        return splits[name]
    near = difflib.get_close_matches(name, splits, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"one of {', '.join(splits)}"
    raise UsageError(f"no split `{name}`", hint=hint)
