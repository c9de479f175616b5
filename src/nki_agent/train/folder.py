"""The folder of one training: its config, what it measured, its checkpoints and its model.

Law: the same config in the same place goes on where it was stopped; another one never mixes with
it. A checkpoint that a crash cut short is not one.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

import nki_agent
from nki_agent.base.clock import Clock
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_text
from nki_agent.base.jsonl import append_line, encode_lines, read_lines
from nki_agent.base.writing import path_error, write_whole, writing
from nki_agent.train.config import GrpoConfig, SftConfig, write_config

HASH_DIGITS = 6
PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")
STATE = "trainer_state.json"
"""What a checkpoint's folder gets last."""
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """What the figures of a training depend on beside its config."""

    tool: str
    packages: dict[str, str]
    data: str
    """Hash of the rows that it learns from."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a training came to."""

    steps: int
    parameters: int
    trainable: int
    rows: int
    left_out: int
    """Dialogues longer than the limit."""
    final: dict[str, float]
    """The last value of each measure."""


@dataclass(frozen=True, slots=True)
class TrainingFolder:
    """The files of one training by their meaning."""

    path: Path

    @property
    def config(self) -> Path:
        """The config with every default; `nki-agent train` takes it as it is."""
        return self.path / "config.toml"

    @property
    def versions(self) -> Path:
        """Of everything that figures depend on."""
        return self.path / "versions.json"

    @property
    def measures(self) -> Path:
        """A line for each logged step."""
        return self.path / "measures.jsonl"

    @property
    def attempts(self) -> Path:
        """A line for each attempt of GRPO."""
        return self.path / "attempts.jsonl"

    @property
    def curves(self) -> Path:
        """The measures as a picture."""
        return self.path / "curves.svg"

    @property
    def checkpoints(self) -> Path:
        """Where it goes on from."""
        return self.path / "checkpoints"

    @property
    def model(self) -> Path:
        """Weights or adapter, and tokenizer, when it is done."""
        return self.path / "model"

    @property
    def tasks(self) -> Path:
        """Task files for the judge's workers."""
        return self.path / "tasks"

    @property
    def summary(self) -> Path:
        """There when it is done."""
        return self.path / "summary.json"

    @property
    def is_done(self) -> bool:
        """Whether it has nothing left to do."""
        return self.summary.is_file()

    def find_checkpoint(self) -> Path | None:
        """The last whole one."""
        found = [
            (int(match[1]), path)
            for path in self.checkpoints.glob("checkpoint-*")
            if (match := _CHECKPOINT.fullmatch(path.name)) and (path / STATE).is_file()
        ]
        return max(found)[1] if found else None

    def drop_torn_checkpoints(self) -> None:
        """Delete what a crash left of one."""
        for path in self.checkpoints.glob("checkpoint-*"):
            if not (path / STATE).is_file():
                shutil.rmtree(path)

    def forget_after(self, step: int) -> None:
        """Take away the lines of steps that will be made again."""
        for path in (self.measures, self.attempts):
            if path.exists():
                kept = [line for line in _read_steps(path) if line["step"] <= step]
                _write(path, encode_lines(kept))

    def add_measures(self, step: int, measures: dict[str, float]) -> None:
        """Write one line."""
        append_line(self.measures, {"step": step, **measures})

    def read_measures(self) -> list[dict[str, Any]]:
        """All lines so far."""
        return _read_steps(self.measures) if self.measures.exists() else []

    def write_summary(self, summary: Summary) -> None:
        """The last thing of a training."""
        data = msgspec.json.format(msgspec.json.encode(summary), indent=2)
        _write(self.summary, data + b"\n")


def open_folder(
    config: SftConfig | GrpoConfig, *, kind: str, subject: str, out: Path | None, clock: Clock
) -> TrainingFolder:
    """The folder of this config: the one that it has already, else a new one under `runs`.

    The config is written there when the training begins, by `note_beginning`: what was refused
    before that may be put right and tried again in the same place.

    Raises:
        UsageError: `out` holds another training, or cannot be made.
    """
    text = write_config(config)
    if out is None:
        name = f"{kind}-{subject}-{hash_text(text)[:HASH_DIGITS]}"
        runs = Path("runs")
        known = sorted(path for path in runs.glob(f"*-{name}") if path.is_dir())
        out = known[-1] if known else runs / f"{clock.now():%Y-%m-%d}-{name}"
    folder = TrainingFolder(out)
    try:
        folder.checkpoints.mkdir(parents=True, exist_ok=True)
        is_other = folder.config.exists() and folder.config.read_bytes() != text.encode()
    except OSError as error:
        raise path_error(f"make the run's folder `{out}`", error) from error
    if is_other:
        raise UsageError(
            f"{out} holds a training with another config",
            hint=f"give another `--out`, or the config {folder.config}",
        )
    return folder


@contextmanager
def alone_in(folder: TrainingFolder) -> Iterator[None]:
    """Only one process trains in a folder; the others of one training don't ask.

    Raises:
        UsageError: another one is there, or it cannot be written to.
    """
    try:
        file = (folder.path / ".lock").open("w")
    except OSError as error:
        raise path_error(f"write to the run's folder `{folder.path}`", error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another process trains in {folder.path}",
                hint="wait for it, or give another `--out`",
            ) from error
        yield


def note_beginning(folder: TrainingFolder, config: SftConfig | GrpoConfig, *, data: str) -> None:
    """Write the config and what else is in use.

    Raises:
        UsageError: the folder's training began with other data, or what it noted is broken.
    """
    found = Versions(
        tool=nki_agent.__version__,
        packages={name: importlib.metadata.version(name) for name in PACKAGES},
        data=data,
    )
    if folder.versions.exists():
        earlier = _read_versions(folder.versions)
        if earlier.data != data:
            raise UsageError(
                f"the data have changed since {folder.path} began",
                hint="bring the data back, or begin anew with another `--out`",
            )
    _write(folder.config, write_config(config).encode())
    _write(folder.versions, msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")


def _read_versions(path: Path) -> Versions:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Versions)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} is broken: {error}", hint="begin anew with another `--out`"
        ) from error


def _read_steps(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of measures or attempts.

    Raises:
        UsageError: one is broken; a last one that a crash cut short is left out.
    """
    try:
        found = msgspec.convert(list(read_lines(path)), list[dict[str, Any]])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} is broken: {error}", hint="take the broken line out; the rest is used"
        ) from error
    return [line for line in found if isinstance(line.get("step"), int)]


def _write(path: Path, data: bytes) -> None:
    with writing(path):
        write_whole(path, data)


def is_first_process() -> bool:
    """Whether this is the process that writes: all but one of a training over GPUs don't."""
    return int(os.environ.get("RANK", "0")) == 0


def say(text: str) -> None:
    """A line for whoever watches."""
    if is_first_process():
        sys.stderr.write(text + "\n")
