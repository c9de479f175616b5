"""Suites: our own tasks, and folders that an import has written.

Law: a suite is what its files' hashes say. A file that is not the one that `suite.toml` names is
refused, and so is a name that leads out of the folder. Tasks of an imported suite are foreign code.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from nki_agent.base.bounded import UnreadableError, read_text
from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import TaskError, UsageError
from nki_agent.base.hashes import hash_bytes, hash_files

SUITE_FILE: Final = "suite.toml"
SCHEMA: Final = 1
"""Raised by every change that an older reader would misread."""
RECORD_BYTES_MAX: Final = 64 << 20
TASKS: Final = Path(__file__).parent / "tasks"
INDEX: Final = Path(__file__).parent / "tasks.toml"
BUILTIN: Final = "nkibench-250"
NEAR_MAX = 3
"""Names that are near to one that there is not."""


class Status(StrEnum):
    """Whether kernels can be judged for a task."""

    FIT = "fit"
    UNFIT = "unfit"


class TaskRow(msgspec.Struct, frozen=True, kw_only=True):
    """One task in `suite.toml`."""

    id: str
    file: str
    """Below the suite's folder; empty where the task has no text in our forms."""
    sha256: str
    origin: str
    """Where it stood in the suite that was imported."""
    level: int = 0
    category: str = ""
    status: Status
    reasons: tuple[str, ...] = ()
    """Why it is unfit."""
    changes: tuple[str, ...] = ()
    """What is not as it was: sizes, and weights that became arguments."""
    notes: tuple[str, ...] = ()
    """What was decided on the way."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """What a suite was made from, and by what: two of the same give the same suite."""

    schema: int = SCHEMA
    name: str
    format: str
    source_sha256: str
    limit_elems: int
    tool_version: str


class SuiteRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of `suite.toml`."""

    source: Source
    task: tuple[TaskRow, ...] = ()


class IndexRow(msgspec.Struct, frozen=True, kw_only=True):
    """One of our own tasks in `tasks.toml`."""

    id: str
    level: int
    category: str
    peak_ns: dict[str, float] = {}
    """By target: the time at the literature's peak, of which `percent_of_peak` is a share."""


class IndexRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of `tasks.toml`."""

    version: str
    task: tuple[IndexRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteTask:
    """One task that kernels can be judged for."""

    id: str
    path: Path
    level: int
    category: str
    sha256: str
    is_trusted: bool
    """Whether its file may run in this process."""
    peak_ns: Mapping[str, float] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A named set of tasks."""

    name: str
    version: str
    tasks: tuple[SuiteTask, ...]
    unfit: tuple[TaskRow, ...] = field(default=(), repr=False)
    """What an import found no use for, with the reasons."""

    @cached_property
    def hash(self) -> str:
        """Of the tasks' ids and texts."""
        return hash_files({task.id: task.sha256 for task in self.tasks})

    def find_task(self, task_id: str) -> SuiteTask:
        """The task of this id.

        Raises:
            UsageError: there is none; the hint names the nearest, or says why it is unfit.
        """
        for task in self.tasks:
            if task.id == task_id:
                return task
        for row in self.unfit:
            if row.id == task_id:
                raise UsageError(f"the task `{task_id}` is unfit: {'; '.join(row.reasons)}")
        ids = [task.id for task in self.tasks]
        longer = [known for known in ids if task_id in known]
        near = (longer or difflib.get_close_matches(task_id, ids, n=NEAR_MAX))[:NEAR_MAX]
        asked = f"did you mean {', '.join(f'`{name}`' for name in near)}? " if near else ""
        option = "" if self.name == BUILTIN else " --suite DIR"
        hint = f"{asked}`nki-agent bench list{option}` names all of its tasks"
        raise UsageError(f"no task `{task_id}` in {self.name}", hint=hint)


def builtin_suite() -> Suite:
    """Our own tasks, those whose files are there, in the order of the index."""
    index = msgspec.toml.decode(INDEX.read_bytes(), type=IndexRecord)
    tasks = []
    for row in index.task:
        path = TASKS / f"{row.id}.py"
        if path.exists():
            tasks.append(
                SuiteTask(
                    id=row.id,
                    path=path,
                    level=row.level,
                    category=row.category,
                    sha256=hash_bytes(path.read_bytes()),
                    is_trusted=True,
                    peak_ns=row.peak_ns,
                )
            )
    return Suite(name=BUILTIN, version=index.version, tasks=tuple(tasks))


def read_suite(folder: Path) -> Suite:
    """The suite that an import has written to a folder.

    Raises:
        UsageError: the folder holds none, or one of another version.
        TaskError: a task file is missing or was changed.
    """
    record = read_record(folder)
    fit = [row for row in record.task if row.status is Status.FIT]
    return Suite(
        name=record.source.name,
        version=record.source.source_sha256,
        tasks=tuple(_read_task(folder, row) for row in fit),
        unfit=tuple(row for row in record.task if row.status is Status.UNFIT),
    )


def read_record(folder: Path) -> SuiteRecord:
    """What `suite.toml` says.

    Raises:
        UsageError: it is not there, or not of this version.
    """
    file = folder / SUITE_FILE
    hint = "make one with `nki-agent bench import`"
    try:
        data = read_text(file, RECORD_BYTES_MAX)
    except UnreadableError as error:
        what = f"`{folder}` holds no suite" if error.is_missing else f"`{file}` {error}"
        raise UsageError(what, hint=hint) from error
    try:
        record = msgspec.toml.decode(data, type=SuiteRecord)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise UsageError(f"`{file}` is no suite of ours: {error}", hint=hint) from error
    if record.source.schema != SCHEMA:
        raise UsageError(
            f"`{file}` has the version {record.source.schema}, and this program reads {SCHEMA}",
            hint=hint,
        )
    doubled = [name for name, count in Counter(row.id for row in record.task).items() if count > 1]
    if doubled:
        raise UsageError(f"`{file}` has the task `{clean(doubled[0])}` twice", hint=hint)
    return record


def _read_task(folder: Path, row: TaskRow) -> SuiteTask:
    place = PurePosixPath(row.file)
    path = folder / place
    if not row.file or place.is_absolute() or ".." in place.parts:
        raise TaskError(f"the file `{row.file}` of `{row.id}` lies outside of the suite")
    try:
        found = hash_bytes(path.read_bytes())
    except OSError as error:
        raise TaskError(f"the file `{path}` of `{row.id}` cannot be read: {error.strerror}") from (
            error
        )
    if found != row.sha256:
        raise TaskError(
            f"`{path}` is not the file that was imported",
            hint="import the suite again, to another folder",
        )
    return SuiteTask(
        id=row.id,
        path=path,
        level=row.level,
        category=row.category,
        sha256=row.sha256,
        is_trusted=False,
    )
