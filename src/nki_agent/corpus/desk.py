"""What one process needs to work on tasks: the task that is open, and a judge.

Law: a task is loaded once for all that is done with it; its source comes from its row, so no file
is written. The same order gives the same answer in any process.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Final

from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.corpus.record import CorpusTask
from nki_agent.sim.threads import use_one_thread
from nki_agent.task.handed import HandedFiles
from nki_agent.task.loader import load_task
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge

TASKS_KEPT: Final = 4


class Desk:
    """Tasks and judges of this process; they end with it."""

    def __init__(self, *, allow_unsandboxed: bool = False) -> None:
        """Start nothing yet."""
        self._allow_unsandboxed = allow_unsandboxed
        self._judges: dict[Target, Judge] = {}
        self._tasks: OrderedDict[str, Task] = OrderedDict()
        use_one_thread()

    def open(self, row: CorpusTask) -> Task:
        """The task of a row.

        Raises:
            TaskError: Its source can't be used.
        """
        task = self._tasks.pop(row.sha256, None)
        if task is None:
            handed = HandedFiles(source=row.source, modules={})
            task = load_task(Path(f"{row.id}.py"), name=row.id, handed=handed)
        self._tasks[row.sha256] = task
        while len(self._tasks) > TASKS_KEPT:
            self._tasks.popitem(last=False)
        return task

    def judge_for(self, target: Target) -> Judge:
        """The judge of a target, with a tracing process of its own."""
        if target not in self._judges:
            self._judges[target] = Judge(
                target=target, allow_unsandboxed=self._allow_unsandboxed, surface=Surface.NKI
            )
        return self._judges[target]

    def close(self) -> None:
        """End the tracing processes."""
        for judge in self._judges.values():
            judge.close()
        self._judges.clear()
