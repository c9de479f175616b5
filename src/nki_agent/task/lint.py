"""Says whether a task is fit to judge kernels by.

Law: a task is fit if an honest kernel passes with room to spare, and what is no kernel (a constant,
the outputs of other inputs, an input handed back) fails by ten times. For real outputs that is ten
times the limits. An exact output has no limits: there ten elements must differ, or all of fewer, so
that no draw lets it pass by luck. The judge's own comparison measures all of it.

Not looked at: equal values among integer inputs, and copies in tasks that only move data.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from nki_agent.base.errors import MachineError, TaskError, UnfitTaskError
from nki_agent.base.seeds import seed_for
from nki_agent.task import fakes, honest
from nki_agent.task.loader import load_task
from nki_agent.task.subject import Arrays, Check, LintFinding, Subject
from nki_agent.task.task import Task
from nki_agent.task.trial import expected, make_trials

_ENDLESS_S = 3600.0
_MODULE = "nki_agent.task.lint"


def lint_task(task: Task, *, fresh_digest: str | None = None) -> tuple[LintFinding, ...]:
    """Everything that makes the task unfit; nothing where it is fit.

    `fresh_digest` is what a FreshProcess says of the same file.
    """
    trials = make_trials(task, _root_seed(task))
    inputs = tuple(trial.inputs(task) for trial in trials)
    try:
        wanted = tuple(expected(task, arrays) for arrays in inputs)
    except TaskError as error:
        return (_raised(error),)
    subject = Subject(task=task, shapes=task.dev, trials=trials, inputs=inputs, wanted=wanted)
    findings: list[LintFinding] = []
    with np.errstate(all="ignore"):
        for check in (*honest.CHECKS, *fakes.CHECKS):
            findings += check(subject)
    if fresh_digest is not None and fresh_digest != _digest(zip(inputs, wanted, strict=True)):
        findings.append(
            LintFinding(
                check=Check.REPEATS,
                what="inputs and outputs of the same seeds in a fresh process",
                found="other bytes",
                allowed="the same in any order and process",
                hint="let nothing depend on hashes, addresses, time or what ran before",
            )
        )
    return tuple(dict.fromkeys(findings))


def _root_seed(task: Task) -> int:
    return seed_for(0, task.hash, "lint")


def _raised(error: TaskError) -> LintFinding:
    return LintFinding(
        check=Check.FINITE,
        what="the reference on a trial's inputs",
        found=str(error).splitlines()[0],
        allowed="outputs on every draw",
        hint="let the inputs function draw values that the reference takes",
    )


def describe_unfit(error: UnfitTaskError) -> LintFinding:
    """What loading a task has shown, as a finding."""
    return LintFinding(
        check=Check(error.check),
        what="the reference while the task was loaded",
        found=str(error).splitlines()[0],
        allowed="a task that loads",
        hint=error.hint,
    )


def digest_backwards(task: Task) -> str:
    """A hash of every trial's inputs and expected outputs, run from the last one to the first."""
    runs = {}
    for trial in reversed(make_trials(task, _root_seed(task))):
        inputs = trial.inputs(task)
        runs[trial.index] = (inputs, expected(task, inputs))
    return _digest([runs[index] for index in sorted(runs)])


def _digest(runs: Iterable[tuple[Arrays, Arrays]]) -> str:
    digest = hashlib.sha256()
    for arrays in itertools.chain.from_iterable(runs):
        for name, array in arrays.items():
            digest.update(name.encode())
            digest.update(array.tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshProcess:
    """Another process that loads the same files, the last one first, and hashes their trials."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls, paths: Sequence[Path]) -> FreshProcess:
        """Start it; it works beside this process."""
        # Another seed of Python's hashes: sets and dicts of names come in another order.
        environment = {**os.environ, "PYTHONHASHSEED": "4711"}
        # -P: a folder `nki_agent` of the current folder must not stand in for ours.
        command = [sys.executable, "-P", "-m", _MODULE, *(str(p) for p in reversed(paths))]
        return cls(
            process=subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
        )

    def digests(self) -> dict[str, str]:
        """The digest of each file, by path; "" where it could not be loaded there.

        Raises:
            MachineError: the process ended early.
        """
        out, err = self.process.communicate(timeout=_ENDLESS_S)
        if self.process.returncode:
            last = (err.strip().splitlines() or ["no message"])[-1]
            raise MachineError(f"the fresh process of the lint ended early: {last}")
        digests: dict[str, str] = msgspec.json.decode(out.splitlines()[-1], type=dict[str, str])
        return digests


def _digest_file(path: Path) -> str:
    try:
        return digest_backwards(load_task(path))
    except TaskError:
        return ""


def main(paths: Sequence[str]) -> None:
    """Print the digests of the files as one line of JSON."""
    found = {path: _digest_file(Path(path)) for path in paths}
    sys.stdout.write("\n" + msgspec.json.encode(found).decode() + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
