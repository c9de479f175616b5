"""Says of one candidate whether it is fit to be a task, and what turns it away if not.

Law: the verdict is the judge's own: the task is loaded and linted as a user's file is, and nothing
here is milder. The reason given is the first in the order of Reason; the rest is not looked at once
one has been met by a cheaper step. Nothing depends on what was looked at before.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from nki_agent.base.errors import TaskError, UnfitTaskError
from nki_agent.base.seeds import seed_for
from nki_agent.corpus.candidate import Candidate, Passed
from nki_agent.corpus.effort import BOUND_NS, measure_effort
from nki_agent.corpus.record import Reason, Rejection
from nki_agent.corpus.watching import find_redundant, watch
from nki_agent.task.handed import HandedFiles
from nki_agent.task.lint import lint_task
from nki_agent.task.loader import load_task
from nki_agent.task.subject import Check
from nki_agent.task.task import Task
from nki_agent.task.trial import make_trials

_REASONS: Mapping[Check, Reason] = MappingProxyType(
    {
        Check.REPEATS: Reason.FAILS,
        Check.HIDDEN: Reason.FAILS,
        Check.MUTATES: Reason.FAILS,
        Check.SHAPES: Reason.FAILS,
        Check.FINITE: Reason.NOT_FINITE,
        Check.NOISE: Reason.NOISY,
        Check.TIES: Reason.NOISY,
        Check.CONSTANT: Reason.CONSTANT,
        Check.STALE: Reason.CONSTANT,
        Check.COPY: Reason.CONSTANT,
        Check.SLICE: Reason.CONSTANT,
        Check.INPUT: Reason.IGNORES_INPUT,
        Check.SATURATED: Reason.SATURATED,
    }
)
_NOTES: Mapping[str, Reason] = MappingProxyType(
    {
        "is tight": Reason.NOISY,
        "the reference overwrites": Reason.FAILS,
        "neither an input nor a weight": Reason.FAILS,
        "does not depend on the inputs": Reason.CONSTANT,
        "is never read": Reason.IGNORES_INPUT,
        "hardly change an output": Reason.IGNORES_INPUT,
    }
)
_ORDER = tuple(Reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    reason: Reason
    detail: str


def look_at(candidate: Candidate) -> Passed | Rejection:
    """Load, run and lint a candidate."""
    path = Path(f"{candidate.id}.py")
    before = set(sys.modules)
    try:
        return _look(candidate, path)
    finally:
        # Each file that is loaded leaves a module behind; thousands of them fill the memory.
        for name in set(sys.modules) - before:
            if name.startswith("nki_agent_task_"):
                del sys.modules[name]


def _look(candidate: Candidate, path: Path) -> Passed | Rejection:
    try:
        handed = HandedFiles(source=candidate.source, modules={})
        task = load_task(path, handed=handed)
    except UnfitTaskError as error:
        return _reject(candidate, _REASONS[Check(error.check)], error)
    except TaskError as error:
        return _reject(candidate, Reason.FAILS, error)
    for faults in (_read_notes(task), _read_lint(task), _look_inside(task)):
        if found := sorted(faults, key=lambda f: _ORDER.index(f.reason)):
            return _reject(candidate, found[0].reason, found[0].detail)
    effort = measure_effort(task, _namespace(candidate))
    low, high = BOUND_NS
    if not low <= effort.ns <= high:
        detail = f"{effort.ns:.3g} ns at the perf sizes, allowed is {low:g} to {high:g}"
        return _reject(candidate, Reason.BOUND, detail)
    return Passed(
        candidate=candidate,
        rank=max(len(shape) for shape in _shapes(task)),
        dtype=task.tensors[0].dtype.value,
        tolerance=task.tolerance.value,
        bound=effort.kind,
        bound_ns=round(effort.ns, 1),
    )


def _shapes(task: Task) -> list[tuple[int, ...]]:
    return [t.shape for t in task.tensors] + [o.shape for o in task.outputs]


def _reject(candidate: Candidate, reason: Reason, detail: object) -> Rejection:
    return Rejection(
        id=candidate.id,
        family=candidate.family,
        pattern=candidate.pattern,
        reason=reason,
        detail=str(detail).splitlines()[0],
    )


def _read_notes(task: Task) -> Iterable[_Fault]:
    for note in task.notes:
        for part, reason in _NOTES.items():
            if part in note:
                yield _Fault(reason=reason, detail=note)


def _read_lint(task: Task) -> Iterable[_Fault]:
    for finding in lint_task(task):
        yield _Fault(
            reason=_REASONS[finding.check],
            detail=f"{finding.what}: {finding.found}, allowed is {finding.allowed}",
        )


def _look_inside(task: Task) -> Iterable[_Fault]:
    inputs = make_trials(task, seed_for(0, task.hash, "corpus"))[0].inputs(task)
    with np.errstate(all="ignore"):
        seen = watch(task.dev, inputs)
        if seen.flat:
            yield _Fault(reason=Reason.SATURATED, detail=seen.flat)
            return
        found = find_redundant(task.dev, inputs, seen)
    if found:
        yield _Fault(reason=Reason.REDUNDANT, detail=f"{found} changes no output")


def _namespace(candidate: Candidate) -> dict[str, Any]:
    """What the file defines. The text is the grammar's, and was run to load the task."""
    namespace: dict[str, Any] = {"__name__": candidate.id}
    exec(compile(candidate.source, f"{candidate.id}.py", "exec"), namespace)
    return namespace
