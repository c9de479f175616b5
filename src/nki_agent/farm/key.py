"""The key of a verdict: what decides it, as one hash.

Law: two jobs with one key may share a verdict. The key is made by the caller, without loading the
task, so that a run whose verdicts are all known starts no process: in the place of the task's hash
stand its file and every module beside it that it can import, found in the source, and the version
of the format. That is never less than what a loaded task's hash covers, but for a task that imports
by other means or reads files of its own: `is_stable` is false then, and its verdicts are kept in no
cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import nki_agent
from nki_agent.base.hashes import hash_files
from nki_agent.farm.job import Job
from nki_agent.task.task import FORMAT_VERSION
from nki_agent.task.trial import TRIALS_VERSION
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import SCHEMA

SECRET: Final = "secret"
"""The seed policy of a job without a seed of its own."""
UNSTABLE: Final = (
    *("importlib", "__import__", "runpy", "exec(", "environ", "getenv"),
    *("open(", ".load(", "loadtxt(", "fromfile(", "memmap(", "read_text(", "read_bytes("),
)
"""Signs in a task's source that its meaning may depend on more than the source."""


@dataclass(frozen=True, slots=True)
class Key:
    """The hash, and whether it covers all that decides the verdict."""

    text: str
    is_stable: bool


class KeyMaker:
    """Makes the keys of one run; every task's files are read once."""

    def __init__(self) -> None:
        """Know no task yet."""
        self._tasks: dict[Path, tuple[str, bool]] = {}

    def make(self, job: Job) -> Key:
        """The key of a job.

        Raises:
            UsageError: The task's file cannot be read.
        """
        known = self._tasks.get(job.task)
        if known is None:
            tree = read_task_tree(job.task)
            stable = not any(sign in text for text in tree.values() for sign in UNSTABLE)
            known = self._tasks[job.task] = (hash_files(tree), stable)
        task, is_stable = known
        parts = {
            "kernel": job.kernel.hash,
            "entry": job.kernel.main,
            "task": task,
            "format": str(FORMAT_VERSION),
            "trials": str(TRIALS_VERSION),
            "target": job.target.value,
            "ask": job.ask.value,
            "trusted": str(job.is_task_trusted),
            "scope": job.scope.value,
            "surface": job.surface.value,
            "tool": nki_agent.__version__,
            "verdict": str(SCHEMA),
            "seed": SECRET if job.root_seed is None else str(job.root_seed),
        }
        return Key(hash_files(parts), is_stable)


def read_task_tree(path: Path) -> dict[str, str]:
    """A task's file and the modules beside it that it can import, by name.

    Raises:
        UsageError: The file cannot be read.
    """
    return Kernel.from_path(path).files
