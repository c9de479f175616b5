"""Scores of a benchmark: attempts to figures with intervals.

Law: every share is of all tasks that were asked for, so a task without an attempt counts as failed,
and one without a baseline as not fast. `fast_p` is strict: more than `p` times as fast as the
baseline, and right at the perf shapes. The mean over a task's attempts comes first, then that over
tasks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from nki_agent.bench.attempt import Attempt
from nki_agent.bench.intervals import Interval, bootstrap, mean, median, wilson

FAST_THRESHOLDS = (1.0, 1.05, 1.5, 2.0)
"""The `p` of `fast_p` that are shown."""
PASS_SIZES = (1, 2, 4, 5, 8, 10)
"""The `k` of `pass@k` that are shown, up to the number of attempts."""


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one group of tasks. Shares are from 0 to 1."""

    tasks: int
    attempts: int
    compiled: Interval
    right: Interval
    pass_at: dict[int, Interval]
    fast: dict[str, Interval]
    """`fast_p` by `p`; empty where no attempt was compared with a baseline at the perf shapes."""
    mean_speedup: Interval | None
    """Mean over all tasks of the speedup, 0 where it is under 1 or the kernel not right (AMSR)."""
    percent_of_bound: Interval | None
    """Median over the tasks with a claimed speed."""
    percent_of_peak: Interval | None
    turns: Interval | None
    wall_s: Interval | None
    tokens_per_task: float
    tokens_per_solved: float | None
    usd_per_task: float | None
    """None where a price is not known."""
    usd_per_solved: float | None
    is_priced: bool = True


def pass_at(k: int, *, attempts: int, right: int) -> float:
    """The chance that one of `k` attempts is right, without bias, from `right` of `attempts`.

    Raises:
        ValueError: there are fewer than `k` attempts.
    """
    if k > attempts:
        raise ValueError(f"pass@{k} of {attempts} attempts")
    return 1.0 - math.comb(attempts - right, k) / math.comb(attempts, k)


def score(tasks: Sequence[str], attempts: Iterable[Attempt], *, rng: np.random.Generator) -> Scores:
    """The figures over `tasks`, of which each counts once.

    Raises:
        ValueError: no tasks were given.
    """
    by_task: dict[str, list[Attempt]] = {task: [] for task in tasks}
    for attempt in attempts:
        if attempt.task in by_task:
            by_task[attempt.task].append(attempt)
    found = [a for group in by_task.values() for a in group]
    solved = sum(any(a.right for a in group) for group in by_task.values())
    tokens = sum(a.cost.input_tokens + a.cost.output_tokens for a in found)
    costs = [a.cost.usd for a in found if a.cost.usd is not None]
    usd = sum(costs) if len(costs) == len(found) else None
    return Scores(
        tasks=len(by_task),
        attempts=len(found),
        compiled=_share(by_task, {a.key for a in found if a.compiled}, rng),
        right=_share(by_task, {a.key for a in found if a.right}, rng),
        pass_at=_pass_at(by_task, rng),
        fast=_fast(by_task, rng),
        mean_speedup=_mean_speedup(by_task, rng),
        percent_of_bound=_percent(by_task, rng, figure="percent_of_bound"),
        percent_of_peak=_percent(by_task, rng, figure="percent_of_peak"),
        turns=_mean([a.cost.turns for a in found], rng),
        wall_s=_mean([a.cost.wall_s for a in found], rng),
        tokens_per_task=tokens / len(by_task),
        tokens_per_solved=tokens / solved if solved else None,
        usd_per_task=None if usd is None else usd / len(by_task),
        usd_per_solved=None if usd is None or not solved else usd / solved,
        is_priced=usd is not None,
    )


Groups = Mapping[str, Sequence[Attempt]]


def _share(by_task: Groups, hits: set[tuple[str, str, int]], rng: np.random.Generator) -> Interval:
    """Wilson's interval over tasks with one attempt; where there are several, over their means."""
    if all(len(group) <= 1 for group in by_task.values()):
        return wilson(len(hits), len(by_task))
    means = [
        sum(a.key in hits for a in group) / len(group) if group else 0.0
        for group in by_task.values()
    ]
    return bootstrap(means, mean, rng=rng)


def _pass_at(by_task: Groups, rng: np.random.Generator) -> dict[int, Interval]:
    most = min((len(group) for group in by_task.values() if group), default=0)
    figures = {}
    for k in PASS_SIZES:
        if k > most:
            break
        values = [
            pass_at(k, attempts=len(group), right=sum(a.right for a in group)) if group else 0.0
            for group in by_task.values()
        ]
        is_plain = all(value in (0.0, 1.0) for value in values)
        figures[k] = (
            wilson(int(sum(values)), len(values)) if is_plain else bootstrap(values, mean, rng=rng)
        )
    return figures


def _is_compared(by_task: Groups) -> bool:
    """Whether there was a baseline for any of them."""
    return any(a.speedup is not None for group in by_task.values() for a in group)


def _fast(by_task: Groups, rng: np.random.Generator) -> dict[str, Interval]:
    if not _is_compared(by_task):
        return {}
    return {
        f"{p:g}": _share(
            by_task,
            {
                a.key
                for group in by_task.values()
                for a in group
                if a.speedup is not None and a.speedup > p
            },
            rng,
        )
        for p in FAST_THRESHOLDS
    }


def _mean_speedup(by_task: Groups, rng: np.random.Generator) -> Interval | None:
    if not _is_compared(by_task):
        return None
    values = []
    for group in by_task.values():
        speedups = [a.speedup if a.speedup is not None else 0.0 for a in group]
        kept = [speedup if speedup >= 1 else 0.0 for speedup in speedups]
        values.append(sum(kept) / len(kept) if kept else 0.0)
    return bootstrap(values, mean, rng=rng)


def _percent(by_task: Groups, rng: np.random.Generator, *, figure: str) -> Interval | None:
    values = []
    for group in by_task.values():
        found = [p for a in group if (p := _figure(a, figure)) is not None]
        if found:
            values.append(sum(found) / len(found))
    return bootstrap(values, median, rng=rng) if values else None


def _figure(attempt: Attempt, figure: str) -> float | None:
    if figure == "percent_of_bound":
        return attempt.percent_of_bound
    peaks = [s.percent_of_peak for s in attempt.claimed if s.percent_of_peak is not None]
    return sum(peaks) / len(peaks) if peaks else None


def _mean(values: Sequence[float], rng: np.random.Generator) -> Interval | None:
    return bootstrap(values, mean, rng=rng) if values else None
