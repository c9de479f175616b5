"""Carries an evaluation out: many episodes at once, each attempt written when it ends.

Law: an attempt is written once. What could not be made for a reason of ours or the machine's is
kept apart, told, and made when the evaluation is started again; a task that cannot be used is
named.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from nki_agent.agent.archive import Archive, Kept, choose_archive
from nki_agent.agent.judging import Judging
from nki_agent.agent.trajectory import BrokenTrajectoryError
from nki_agent.base.clock import Clock
from nki_agent.base.errors import MachineError, TaskError, UsageError
from nki_agent.base.seeds import seed_for
from nki_agent.bench.attempt import Attempt
from nki_agent.bench.suite import SuiteTask
from nki_agent.chip.spec import Target
from nki_agent.evals.attempts import AttemptLog, Key
from nki_agent.evals.config import EvalConfig
from nki_agent.evals.episode import Assignment, run_attempt
from nki_agent.llm.keys import hide_secrets
from nki_agent.llm.protocol import Model, RunBudgetError
from nki_agent.task.task import Task

ATTEMPTS = "attempts"
"""Folder of trajectories and kernels below the run's."""


class Workshop(Protocol):
    """Where the parts of an attempt come from."""

    def load(self, entry: SuiteTask) -> Task:
        """The task of an entry; TaskError where it cannot be used."""

    def make_model(self, task: Task, target: Target, *, attempt: Path) -> Model:
        """A model that has not been asked yet; `attempt` is its folder below a run's."""

    def make_judging(self, entry: SuiteTask, target: Target) -> Judging:
        """Who judges its kernels."""

    def find_baseline(self, task_id: str, target: Target, shapes: str) -> float | None:
        """The frozen latency to compare with, in ns."""


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far an evaluation is; given to who watches after each attempt."""

    total: int
    done: int = 0
    right: int = 0
    last: Attempt | None = None
    unusable: dict[str, str] = field(default_factory=dict)
    """Task → why no kernel can be judged for it."""
    lost: dict[str, str] = field(default_factory=dict)
    """Attempt → what of the machine's failed."""
    unpaid: str = ""
    """Why no more replies are paid in this run, once its budget is used up."""
    faulted: dict[str, Path] = field(default_factory=dict)
    """Attempt → the file with the traceback of our own bug."""

    @property
    def is_whole(self) -> bool:
        """Whether every attempt of a usable task is made."""
        return not self.lost and not self.faulted and not self.unpaid


Watch = Callable[[Progress], None]


def list_keys(config: EvalConfig) -> Iterator[tuple[str, str, int]]:
    """Every attempt of an evaluation, in the order in which it is made."""
    for sample in range(config.samples):
        for target in config.targets:
            for task in config.tasks:
                yield task.id, target.value, sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One evaluation: what was asked, where its parts come from, and where attempts are kept."""

    config: EvalConfig
    entries: Mapping[str, SuiteTask]
    workshop: Workshop
    log: AttemptLog
    folder: Path
    clock: Clock
    archive: tuple[Kept, ...] | None = None
    """Right kernels of the user's own; whatever could answer a task is left out of its attempts."""

    async def carry_out(self, *, episodes: int, watch: Watch) -> Progress:
        """Make every attempt that the log does not hold yet, `episodes` at a time."""
        keys = list(list_keys(self.config))
        known = [a for a in self.log.attempts() if a.key in set(keys)]
        progress = Progress(total=len(keys), done=len(known), right=sum(a.right for a in known))
        gate = asyncio.Semaphore(episodes)
        async with asyncio.TaskGroup() as group:
            for key in keys:
                if self.log.has(key):
                    continue
                await gate.acquire()
                if progress.unpaid:
                    break
                task = group.create_task(self._attempt(key, progress, watch=watch))
                task.add_done_callback(lambda _: gate.release())
        return progress

    async def _attempt(self, key: Key, progress: Progress, *, watch: Watch) -> None:
        """Make one attempt and write it; failures of its task and of the machine are noted."""
        try:
            attempt = await self._make(key, name_attempt(key))
        except RunBudgetError as error:
            progress.unpaid = str(error)
        except BrokenTrajectoryError as error:
            progress.lost[name_attempt(key)] = str(error)
        except (TaskError, UsageError) as error:
            progress.unusable[key[0]] = str(error)
        except MachineError as error:
            progress.lost[name_attempt(key)] = str(error)
        except Exception as error:  # noqa: BLE001 - our own bug: kept whole, and told in the end
            progress.faulted[name_attempt(key)] = self._keep_fault(name_attempt(key), error)
        else:
            self.log.append(attempt)
            progress.done += 1
            progress.right += attempt.right
            progress.last = attempt
        watch(progress)

    def _find_archive(self, task: Task, key: Key) -> Archive | None:
        if self.archive is None:
            return None
        seed = seed_for(self.config.seed, "archive", *key)
        return choose_archive(self.archive, target=key[1], root_seed=seed, without=task)

    def _keep_fault(self, name: str, error: Exception) -> Path:
        path = self.folder / ATTEMPTS / name / "fault.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = hide_secrets("".join(traceback.format_exception(error)))
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
        return path

    async def _make(self, key: Key, name: str) -> Attempt:
        entry, target = self.entries[key[0]], Target(key[1])
        task = await asyncio.to_thread(self.workshop.load, entry)
        attempt = await run_attempt(
            Assignment(
                entry=entry,
                task=task,
                target=target,
                sample=key[2],
                root_seed=seed_for(self.config.seed, *key),
                mode=self.config.mode,
                limits=self.config.limits_at(entry.level),
                surface=self.config.surface,
                perf=self.config.perf,
                folder=self.folder / ATTEMPTS / name,
                ablation=self.config.ablation,
                archive=self._find_archive(task, key),
            ),
            model=self.workshop.make_model(task, target, attempt=Path(ATTEMPTS) / name),
            judging=self.workshop.make_judging(entry, target),
            clock=self.clock,
            find_baseline=self.workshop.find_baseline,
        )
        kernel = f"{ATTEMPTS}/{name}/kernel.py"
        return msgspec.structs.replace(
            attempt,
            config_hash=self.config.hash,
            kernel=kernel if attempt.kernel_hash is not None else None,
            trajectory=f"{ATTEMPTS}/{name}/trajectory.jsonl",
        )


def name_attempt(key: tuple[str, str, int]) -> str:
    """A file name for an attempt, unlike every other one's."""
    task, target, sample = key
    return f"{task}-{target}-{sample}"
