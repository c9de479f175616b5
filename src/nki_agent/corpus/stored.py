"""The files of a corpus folder: which there are, and how they are read.

Law: a row that cannot be read is named by its file and line and is left out; the others are used.
What belongs to another corpus is refused, since it would be mixed up for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_text
from nki_agent.base.writing import path_error
from nki_agent.corpus.record import SCHEMA, CorpusTask, Solution
from nki_agent.task.loader import make_id

TASKS: Final = "tasks.jsonl"
SOLUTIONS: Final = "solutions.jsonl"
UNSOLVED: Final = "unsolved.jsonl"
ROW_BYTES_MAX: Final = 64 << 20
"""A longer line is no row of ours."""

R = TypeVar("R", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows(Generic[R]):
    """What a file holds."""

    good: tuple[R, ...]
    broken: tuple[str, ...]
    """`file:line: why` of each row that is left out."""


class OfTask(Protocol):
    """A row that belongs to a task of one text."""

    @property
    def task(self) -> str:
        """The id of the task."""

    @property
    def task_sha256(self) -> str:
        """Of the task's source."""


def read_rows(path: Path, record: type[R], *, schema: int, is_finished: bool = False) -> Rows[R]:
    """The rows of a file; a last line that is cut off is left out, and broken in a finished file.

    Raises:
        UsageError: There is no such file, or it cannot be read.
        MachineError: The disk fails.
    """
    decoder = msgspec.json.Decoder(record)
    good: list[R] = []
    broken: list[str] = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n") and is_finished:
                    broken.append(f"{path}:{number}: the line is cut off")
                    continue
                if not line.endswith(b"\n") or not line.strip():
                    continue
                try:
                    row = decoder.decode(line[:ROW_BYTES_MAX])
                except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                    broken.append(f"{path}:{number}: no {record.__name__}: {error}")
                    continue
                if (found := getattr(row, "schema", schema)) == schema:
                    good.append(row)
                else:
                    broken.append(f"{path}:{number}: its schema is {found}, and ours is {schema}")
    except OSError as error:
        hint = "make a corpus with `nki-agent data build`"
        raise path_error(f"read `{path}`", error, hint=hint) from error
    return Rows(good=tuple(good), broken=tuple(broken))


def read_tasks(folder: Path) -> Rows[CorpusTask]:
    """The tasks of a corpus; a row whose text was changed, or whose id comes again, is broken."""
    path = folder / TASKS
    rows = read_rows(path, CorpusTask, schema=SCHEMA, is_finished=True)
    good: dict[str, CorpusTask] = {}
    broken = list(rows.broken)
    for task in rows.good:
        if hash_text(task.source) != task.sha256:
            broken.append(f"{path}: `{clean(task.id)}` is not the text that its hash is of")
        elif task.id in good or make_id(Path(f"{task.id}.py")) != task.id:
            why = "is there twice" if task.id in good else "is no id"
            broken.append(f"{path}: `{clean(task.id)}` {why}")
        else:
            good[task.id] = task
    return Rows(good=tuple(good.values()), broken=tuple(broken))


def read_solutions(folder: Path, tasks: Sequence[CorpusTask]) -> Rows[Solution]:
    """The solutions of the tasks of a corpus; none where there is no file yet.

    Raises:
        UsageError: One of them is of another corpus.
    """
    path = folder / SOLUTIONS
    if not path.exists():
        return Rows(good=(), broken=())
    rows = read_rows(path, Solution, schema=SCHEMA)
    hashes = {task.id: task.sha256 for task in tasks}
    require_own(rows.good, hashes, path=path)
    own = tuple(solution for solution in rows.good if solution.task in hashes)
    return Rows(good=own, broken=rows.broken)


def require_own(rows: Iterable[OfTask], hashes: Mapping[str, str], *, path: Path) -> None:
    """Refuse rows of tasks that the corpus does not have, or has with another text.

    Where rows of tasks are broken, a task that is not there may be one of those.
    """
    for row in rows:
        if row.task not in hashes:
            if read_tasks(path.parent).broken:
                continue
            raise UsageError(
                f"`{path}` is of another corpus: this one has no task `{row.task}`",
                hint="name the corpus that it was made for, or move the file away",
            )
        if row.task_sha256 != hashes[row.task]:
            raise UsageError(
                f"`{path}` is of another corpus: the text of `{row.task}` had the hash"
                f" {row.task_sha256[:12]} and has {hashes[row.task][:12]}",
                hint="name the corpus that it was made for, or move the file away",
            )
