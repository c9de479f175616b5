"""Where an evaluation's parts come from on this machine: tasks, models, a farm, a baseline."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from nki_agent.agent.judging import FarmJudging, Judging
from nki_agent.bench.baselines import Baseline, read_baseline
from nki_agent.bench.suite import BUILTIN, Suite, SuiteTask
from nki_agent.builtin.author import BuiltinAuthor
from nki_agent.builtin.search import NO_BUDGET, SearchBudget
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.cost.version import MODEL_VERSION
from nki_agent.farm.executor import Executor
from nki_agent.llm.choose import ModelSource
from nki_agent.llm.protocol import Model
from nki_agent.sandbox.task_host import TaskHost, load_untrusted_task
from nki_agent.task.loader import load_task
from nki_agent.task.task import Task

TASKS_KEPT = 32
"""Loaded tasks that are kept: attempts of one task follow each other."""


def find_baseline(suite: Suite) -> Baseline | None:
    """The baseline of our own suite; None where it was made with other tasks or costs."""
    found = read_baseline(suite.version) if suite.name == BUILTIN else None
    if found is None or found.cost_model != MODEL_VERSION or found.suite_hash != suite.hash:
        return None
    return found


def explain_no_baseline(suite: Suite) -> str:
    """Why there is none to compare with, and what makes one."""
    found = read_baseline(suite.version) if suite.name == BUILTIN else None
    if found is None:
        return f"{suite.name} has no baseline: no speedups"
    if found.suite_hash != suite.hash:
        what = f"the suite {found.suite_hash[:12]}, and this one is {suite.hash[:12]}"
    else:
        what = f"the cost model {found.cost_model}, and this one is {MODEL_VERSION}"
    return f"the frozen baseline is of {what}: no speedups; `make baseline` freezes it anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who writes, on which surface, and how far the built-in one searches."""

    models: ModelSource
    surface: Surface = Surface.NKI
    budget: SearchBudget = NO_BUDGET


class LocalWorkshop:
    """This machine's; close it or use `with`. Loading is one task at a time."""

    def __init__(
        self,
        *,
        author: Author,
        executor: Executor,
        baseline: Baseline | None,
        trust_suite: bool = False,
        allow_unsandboxed: bool = False,
    ) -> None:
        """With `trust_suite`, foreign task files run in this process too."""
        self._author = author
        self._executor = executor
        self._baseline = baseline
        self._trust_suite = trust_suite
        self._allow_unsandboxed = allow_unsandboxed
        self._host: TaskHost | None = None
        self._lock = threading.Lock()
        self._tasks: dict[Path, Task] = {}

    def load(self, entry: SuiteTask) -> Task:
        """The task of an entry; TaskError where it cannot be used."""
        with self._lock:
            task = self._tasks.pop(entry.path, None) or self._load(entry)
            self._tasks[entry.path] = task
            while len(self._tasks) > TASKS_KEPT:
                self._tasks.pop(next(iter(self._tasks)))
            return task

    def make_model(self, task: Task, target: Target, *, attempt: Path) -> Model:
        """A model that has not been asked yet; a recording's is that of the same attempt."""
        budget = self._author.budget
        return self._author.models.make_model(
            make_builtin=lambda: BuiltinAuthor(task, target=target, budget=budget),
            recording=attempt,
        )

    def make_judging(self, entry: SuiteTask, target: Target) -> Judging:
        """Workers of the farm."""
        return FarmJudging(
            executor=self._executor,
            task=entry.path,
            target=target,
            is_task_trusted=self._is_trusted(entry),
            surface=self._author.surface,
        )

    def find_baseline(self, task_id: str, target: Target, shapes: str) -> float | None:
        """The frozen latency to compare with, in ns."""
        if self._baseline is None:
            return None
        return self._baseline.find_ns(task_id, target.value, shapes)

    async def drop_connections(self) -> None:
        """Close the connections to the model, in the loop that opened them."""
        await self._author.models.drop_connections()

    def close(self) -> None:
        """End the processes of foreign tasks, and what the model needs."""
        self._author.models.close()
        if self._host is not None:
            self._host.close()
            self._host = None

    def _is_trusted(self, entry: SuiteTask) -> bool:
        return entry.is_trusted or self._trust_suite

    def _load(self, entry: SuiteTask) -> Task:
        if self._is_trusted(entry):
            return load_task(entry.path, name=entry.id)
        if self._host is None:
            self._host = TaskHost(allow_unsandboxed=self._allow_unsandboxed)
        return load_untrusted_task(entry.path, host=self._host)
