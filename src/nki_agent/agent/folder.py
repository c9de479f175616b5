"""The folder of one run: made once, filled as things happen, kept whatever comes.

Law: no file of another run is ever written over; a name that exists gets a counter.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from nki_agent.base.clock import Clock
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_bytes
from nki_agent.base.writing import NewFolder, path_error, write_whole

HASH_DIGITS = 6
SUBJECT_LENGTH_MAX = 48
ATTEMPTS_MAX = 10_000
"""Counters tried before it is clear that something else is wrong."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run by their meaning."""

    path: Path

    @property
    def config(self) -> Path:
        """What was resolved before the run began."""
        return self.path / "config.json"

    @property
    def task(self) -> Path:
        """The task as it was read."""
        return self.path / "task.py"

    @property
    def trajectory(self) -> Path:
        """Every turn and tool call."""
        return self.path / "trajectory.jsonl"

    def sample_trajectory(self, number: int) -> Path:
        """The trajectory of one of several episodes, counted from 0."""
        if number == 0:
            return self.trajectory
        return self.trajectory.with_name(f"trajectory-{number + 1}.jsonl")

    @property
    def kernel(self) -> Path:
        """The kernel that was judged."""
        return self.path / "kernel.py"

    @property
    def start(self) -> Path:
        """The user's kernel that the run began with, where there is one."""
        return self.path / "start.py"

    @property
    def verdict(self) -> Path:
        """What the judge said of it."""
        return self.path / "verdict.json"

    @property
    def timeline(self) -> Path:
        """Its timeline, for Perfetto."""
        return self.path / "timeline.json"

    @property
    def profile(self) -> Path:
        """Where its time goes, as a record."""
        return self.path / "profile.json"

    @property
    def error(self) -> Path:
        """What stopped the run, where something did."""
        return self.path / "error.txt"

    def write_json(self, path: Path, record: Any) -> None:
        """One record as indented JSON with a final newline: all of it, or no file."""
        write_whole(path, msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")


def make_run_folder(
    root: Path, *, kind: str, subject: str, config: msgspec.Struct, clock: Clock
) -> RunFolder:
    """A new folder `2026-09-03-solve-rmsnorm-a1b2c3` under `root`, with `config.json` in it.

    Raises:
        UsageError: `root` cannot be written to.
        MachineError: The disk is full or fails.
    """
    digits = hash_bytes(msgspec.json.encode(config, order="sorted"))[:HASH_DIGITS]
    name = f"{clock.now():%Y-%m-%d}-{kind}-{make_slug(subject)}-{digits}"
    parents = NewFolder(root)
    path = None
    try:
        root.mkdir(parents=True, exist_ok=True)
        path = _make_new(root, name)
        folder = RunFolder(path)
        folder.write_json(folder.config, config)
    except BaseException as error:
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)
        parents.unmake()
        if isinstance(error, OSError):
            hint = "name a folder that you may write to with `--runs DIR`"
            raise path_error(f"write a run folder under `{root}`", error, hint=hint) from error
        raise
    return folder


def make_slug(text: str) -> str:
    """Lower case, digits and dashes only; `task` when nothing is left."""
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return slug[:SUBJECT_LENGTH_MAX].rstrip("-") or "task"


def _make_new(root: Path, name: str) -> Path:
    for counter in range(1, ATTEMPTS_MAX):
        path = root / (name if counter == 1 else f"{name}-{counter}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise UsageError(f"`{root}` has too many runs named `{name}`", hint="name another `--runs DIR`")
