"""Which tasks a step has, and which attempts make a group from which something can be learned.

Law: a group whose attempts all have one reward has no gain, whatever the reward; drawing more of
its attempts until the outcomes differ, or leaving it out, is said in the config and counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nki_agent.base.errors import UsageError
from nki_agent.corpus.record import CorpusTask
from nki_agent.train.config import CurriculumPart, GrpoConfig
from nki_agent.train.outcome import Outcome
from nki_agent.train.processes import count_processes
from nki_agent.train.reward import compiles, right

SAME = 1e-9
"""Rewards that differ by less are equal."""


def plan_tasks(
    rows: Sequence[CorpusTask],
    curriculum: CurriculumPart,
    *,
    steps: int,
    tasks_per_step: int,
    rng: np.random.Generator,
) -> list[CorpusTask]:
    """The tasks of all steps in their order; each level's are drawn from when it has opened.

    A task comes again only after all others of the open levels came as often.

    Raises:
        UsageError: no level is open at the first step, or an open one has no tasks.
    """
    if len(curriculum.levels) != len(curriculum.open_at):
        raise UsageError("[curriculum] names not as many `levels` as `open_at` has shares")
    opens = dict(zip(curriculum.levels, curriculum.open_at, strict=True))
    by_level = {level: [row for row in rows if row.level == level] for level in opens}
    if not any(share <= 0 and by_level[level] for level, share in opens.items()):
        raise UsageError("[curriculum] opens no level with tasks at the first step")
    order = {
        row.id: int(place) for row, place in zip(rows, rng.permutation(len(rows)), strict=True)
    }
    times = {row.id: 0 for row in rows}
    planned: list[CorpusTask] = []
    for step in range(steps):
        is_open = [level for level, share in opens.items() if share * steps <= step]
        choice = [row for level in is_open for row in by_level[level]]
        choice.sort(key=lambda row: (times[row.id], order[row.id]))
        for place in range(tasks_per_step):
            row = choice[place % len(choice)]
            times[row.id] += 1
            planned.append(row)
    return planned


def value_of(outcome: Outcome | None, reward: float | None, kind: str) -> float | None:
    """What must differ within a group; None for an attempt without an outcome."""
    if outcome is None or reward is None:
        return None
    if kind == "right":
        return right(outcome)
    return compiles(outcome) if kind == "compiles" else reward


def is_equal(values: Sequence[float | None]) -> bool:
    """Whether no attempt stands out: all that have a value have the same."""
    known = [v for v in values if v is not None]
    return not known or max(known) - min(known) <= SAME


def pick(values: Sequence[float | None], size: int) -> list[int]:
    """`size` attempts of those drawn, in their order: the best and the worst, then half and half.

    Attempts above the middle and below it are taken in turn; one without a value comes last.
    """
    known = [i for i, v in enumerate(values) if v is not None]
    if not known:
        return list(range(size))
    worth = {i: float(values[i] or 0.0) for i in known}
    middle = (max(worth.values()) + min(worth.values())) / 2
    high = sorted((i for i in known if worth[i] > middle), key=lambda i: -worth[i])
    low = sorted((i for i in known if worth[i] <= middle), key=lambda i: worth[i])
    taken: list[int] = []
    while len(taken) < size and (high or low):
        taken += [side.pop(0) for side in (high, low) if side]
    rest = [i for i in range(len(values)) if values[i] is None]
    return sorted((*taken, *rest)[:size])


def require_whole_groups(config: GrpoConfig) -> int:
    """The attempts that each process makes in a step.

    Raises:
        UsageError: a group would be spread over processes, or passes would not fill a step.
    """
    processes = count_processes(config.hardware)
    attempts = config.tasks_per_step * config.attempts
    if config.tasks_per_step % processes:
        raise UsageError(
            f"{config.tasks_per_step} tasks a step can't be spread over {processes} processes",
            hint="let `tasks_per_step` be a multiple of their number: a group stays on one",
        )
    own = attempts // processes
    if own % config.batch:
        raise UsageError(
            f"`batch` is {config.batch}, and each process makes {own} attempts a step",
            hint="let `batch` divide `tasks_per_step` * `attempts` / processes",
        )
    return own
