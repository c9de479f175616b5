"""The tasks that kernels are written for in training, as files that the judge's workers load.

Law: a task whose text a model wrote runs in a sandbox of its own, ours run in the worker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nki_agent.base.errors import UsageError
from nki_agent.corpus.record import CorpusTask, Origin, Split
from nki_agent.corpus.stored import read_solutions, read_tasks
from nki_agent.sandbox.task_host import TaskHost, load_untrusted_task
from nki_agent.task.loader import load_task
from nki_agent.task.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One task of a training."""

    row: CorpusTask
    path: Path
    task: Task
    is_trusted: bool

    @property
    def id(self) -> str:
        """Of the task."""
        return self.row.id


class Shelf:
    """The tasks of a corpus folder; each is loaded when it is first asked for."""

    def __init__(self, corpus: Path, *, folder: Path) -> None:
        """Task files are written to `folder`.

        Raises:
            UsageError: there is no corpus, or a row of it is broken.
        """
        rows = read_tasks(corpus)
        if rows.broken:
            raise UsageError(
                f"{corpus} has {len(rows.broken)} broken rows, the first: {rows.broken[0]}",
                hint="make the corpus again with `nki-agent data build`",
            )
        self.rows = rows.good
        self._corpus = corpus
        self._folder = folder
        self._entries: dict[str, Entry] = {}
        self._host: TaskHost | None = None

    def list_split(self, split: str) -> list[CorpusTask]:
        """The tasks of a split.

        Raises:
            UsageError: there is no such split, or it is empty.
        """
        if split not in set(Split):
            raise UsageError(f"no split `{split}`", hint=f"one of {', '.join(Split)}")
        found = [row for row in self.rows if row.split == split]
        if not found:
            counts = Counter(row.split for row in self.rows)
            has = ", ".join(f"{count} in {name}" for name, count in counts.items())
            raise UsageError(
                f"{self._corpus} has no tasks in the split `{split}`",
                hint=f"it has {has}: name another split, or build more tasks",
            )
        return found

    def find_baselines(self, target: str) -> dict[str, float]:
        """The latency of the built-in author's kernels at dev shapes, in ns, by task."""
        solutions = read_solutions(self._corpus, self.rows)
        return {s.task: s.latency_ns for s in solutions.good if s.target == target}

    def take(self, row: CorpusTask) -> Entry:
        """The task of a row, loaded."""
        if row.id not in self._entries:
            self._entries[row.id] = self._make(row)
        return self._entries[row.id]

    def take_all(self, rows: Sequence[CorpusTask]) -> list[Entry]:
        """Each row's task."""
        return [self.take(row) for row in rows]

    def close(self) -> None:
        """End the processes of foreign tasks."""
        if self._host is not None:
            self._host.close()
            self._host = None

    def _make(self, row: CorpusTask) -> Entry:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{row.id}.py"
        path.write_text(row.source, encoding="utf-8")
        is_trusted = row.origin is Origin.GRAMMAR
        if is_trusted:
            task = load_task(path, name=row.id)
        else:
            self._host = self._host or TaskHost()
            task = load_untrusted_task(path, host=self._host)
        return Entry(row=row, path=path, task=task, is_trusted=is_trusted)
