"""Who answers the tools: a judge in this process, or many behind a farm."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nki_agent.base.errors import MachineError, TaskError
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.farm.executor import Executor
from nki_agent.farm.job import Ask, End, Faulted, Job, Judged, Looked, Lost, Unusable
from nki_agent.task.task import Scope, Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.look import Look
from nki_agent.verify.verdict import Verdict


class Judging(Protocol):
    """Judges kernels for one task; raises only for our own or the machine's failure."""

    async def look(self, kernel: Kernel, *, scope: Scope = Scope.PROOF) -> Look:
        """How far a kernel comes without data, and where its time would go.

        A claim is about the perf shapes.
        """

    async def judge(self, kernel: Kernel, *, root_seed: int, scope: Scope = Scope.PROOF) -> Verdict:
        """The full verdict."""


class OneJudge:
    """A judge in this process, in a thread of its own."""

    def __init__(self, judge: Judge, task: Task) -> None:
        """Ask `judge` about kernels for `task`."""
        self._judge = judge
        self._task = task
        self._turn = threading.Lock()  # a judge has one tracing process, which does one thing

    async def look(self, kernel: Kernel, *, scope: Scope = Scope.PROOF) -> Look:
        """As the protocol says."""
        return await asyncio.to_thread(self._look, kernel, scope)

    async def judge(self, kernel: Kernel, *, root_seed: int, scope: Scope = Scope.PROOF) -> Verdict:
        """As the protocol says."""
        return await asyncio.to_thread(self._judge_alone, kernel, root_seed, scope)

    def _look(self, kernel: Kernel, scope: Scope) -> Look:
        with self._turn:
            return self._judge.look(kernel, self._task.looked_at(scope))

    def _judge_alone(self, kernel: Kernel, root_seed: int, scope: Scope) -> Verdict:
        with self._turn:
            return self._judge.judge(kernel, self._task, root_seed=root_seed, scope=scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmJudging:
    """Workers of a farm, each with its own copy of the task."""

    executor: Executor
    task: Path
    target: Target
    is_task_trusted: bool = True
    surface: Surface = Surface.NKI

    async def look(self, kernel: Kernel, *, scope: Scope = Scope.PROOF) -> Look:
        """As the protocol says."""
        end = await self._ask(self._make_job(kernel, ask=Ask.LOOK, scope=scope))
        assert isinstance(end, Looked)
        return end.look

    async def judge(self, kernel: Kernel, *, root_seed: int, scope: Scope = Scope.PROOF) -> Verdict:
        """As the protocol says."""
        end = await self._ask(self._make_job(kernel, root_seed=root_seed, scope=scope))
        assert isinstance(end, Judged)
        return end.verdict

    def _make_job(
        self,
        kernel: Kernel,
        *,
        ask: Ask = Ask.VERDICT,
        root_seed: int | None = None,
        scope: Scope = Scope.PROOF,
    ) -> Job:
        return Job(
            id=kernel.hash,
            kernel=kernel,
            task=self.task,
            is_task_trusted=self.is_task_trusted,
            target=self.target,
            ask=ask,
            scope=scope,
            surface=self.surface,
            root_seed=root_seed,
        )

    async def _ask(self, job: Job) -> End:
        end = await asyncio.wrap_future(self.executor.submit(job))
        match end:
            case Judged() | Looked():
                return end
            case Lost(reason=reason):
                raise MachineError(reason)
            case Unusable(message=message, hint=hint):
                raise TaskError(message, hint=hint)
            case Faulted(trace=trace):
                raise FaultError(trace)


class FaultError(Exception):
    """A bug of ours in a worker; its text is the traceback there."""
