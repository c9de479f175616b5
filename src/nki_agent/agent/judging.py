"""Who answers the tools: a judge in this process, or many behind a farm."""

from __future__ import annotations

import asyncio
from typing import Protocol

from nki_agent.task.task import Scope, Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.look import Look
from nki_agent.verify.verdict import Verdict


class Judging(Protocol):
    """Judges kernels for one task; raises only for our own or the machine's failure."""

    async def look(self, kernel: Kernel) -> Look:
        """How far a kernel comes without data, and where its time would go."""

    async def judge(self, kernel: Kernel, *, root_seed: int, scope: Scope = Scope.PROOF) -> Verdict:
        """The full verdict."""


class OneJudge:
    """A judge in this process, in a thread of its own."""

    def __init__(self, judge: Judge, task: Task) -> None:
        """Ask `judge` about kernels for `task`."""
        self._judge = judge
        self._task = task

    async def look(self, kernel: Kernel) -> Look:
        """As the protocol says."""
        return await asyncio.to_thread(self._judge.look, kernel, self._task.dev)

    async def judge(self, kernel: Kernel, *, root_seed: int, scope: Scope = Scope.PROOF) -> Verdict:
        """As the protocol says."""
        return await asyncio.to_thread(
            self._judge.judge, kernel, self._task, root_seed=root_seed, scope=scope
        )
