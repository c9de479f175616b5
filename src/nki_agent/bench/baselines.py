"""Frozen latencies that speedups are measured against: the built-in author's, by version.

Law: one file a version of the benchmark; it names the cost model that it was made with, and is used
with no other. A task without a baseline has no speedup.
"""

from __future__ import annotations

import functools
from pathlib import Path

import msgspec

from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_bytes

FOLDER = Path(__file__).parent / "baselines"
SCHEMA = 1


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """The latency of the baseline kernel of one task at one shape set on one target."""

    task: str
    target: str
    shapes: str
    latency_ns: float
    kernel_hash: str


class Baseline(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All of one version."""

    schema: int = SCHEMA
    suite: str
    suite_hash: str
    cost_model: int
    author: str
    entries: tuple[Entry, ...]

    @functools.cached_property
    def hash(self) -> str:
        """Of all of it."""
        return hash_bytes(msgspec.json.encode(self, order="sorted"))

    def find_ns(self, task: str, target: str, shapes: str) -> float | None:
        """The latency to compare with, if there is one."""
        return self._index.get((task, target, shapes))

    @functools.cached_property
    def _index(self) -> dict[tuple[str, str, str], float]:
        return {(e.task, e.target, e.shapes): e.latency_ns for e in self.entries}


def read_baseline(version: str) -> Baseline | None:
    """The baseline of a version of our own suite; None where none was frozen.

    Raises:
        UsageError: the file is not of this version of the program.
    """
    path = FOLDER / f"{version}.json"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(data, type=Baseline)
    except msgspec.MsgspecError as error:
        raise UsageError(f"`{path.name}` is no baseline of this version: {error}") from error
