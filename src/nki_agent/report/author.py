"""What one author reached over a suite, as a page: figures, distribution, the worst, kernels whole.

Law: every figure comes from the attempts of the runs named; speeds count only where the kernel is
right at the perf shapes. The first run is what is described; a second one stands beside it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import UsageError
from nki_agent.bench.attempt import Attempt, Proof
from nki_agent.cost.summary import format_figure
from nki_agent.evals.results import Results
from nki_agent.report.markdown import write_table

WORST = 20
BOUNDS = (0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90)
"""Lower ends of the distribution's classes, in percent of the bound."""
US_NS = 1e3
BAR_WIDTH = 40


def write_author(
    results: Results, *, before: Results | None, shown: Sequence[str], command: str
) -> str:
    """The page of a run; `before` is the same suite without a search, `shown` are task ids."""
    first = {} if before is None else _percents(before)
    percents = _percents(results)
    if not percents:
        raise UsageError(
            f"`{results.folder}` has no speeds at the perf shapes", hint="run it with `--perf`"
        )
    targets = ", ".join(target.value for target in results.config.targets)
    parts = [
        f"# {clean(results.name)} on {clean(results.config.versions.suite)}, {targets}",
        (
            f"<!-- from {command} -->\nMade by `{command}`; don't edit. Latencies are modelled, not"
            " measured; percentages are of the least time that a task needs."
        ),
        write_table(("figure", *_columns(before)), list(_write_figures(results, before))),
        "## By level\n\n"
        + write_table(
            ("level", "tasks", "right", "% of bound"),
            list(_write_levels(results, percents)),
        ),
        f"## The distribution\n\n{_write_distribution(percents)}",
        f"## The {WORST} worst\n\n{_write_worst(results, percents, first)}",
        f"## What is not right\n\n{_write_wrong(results)}",
        *(_write_kernel(results, task, percents) for task in shown),
    ]
    return "\n\n".join(_with_source(part, command) for part in parts) + "\n"


def _with_source(part: str, command: str) -> str:
    """Each table of a part says where its figures are from."""
    return part.replace("\n\n| ", f"\n\n<!-- from {command} -->\n| ")


def _columns(before: Results | None) -> tuple[str, ...]:
    return ("value",) if before is None else ("value", "first draft")


def _write_figures(results: Results, before: Results | None) -> Iterator[tuple[str, ...]]:
    columns = [dict(_figures(found)) for found in (results, before) if found is not None]
    for name in columns[0]:
        yield (name, *(column[name] for column in columns))


def _figures(results: Results) -> Iterator[tuple[str, str]]:
    percents = sorted(_percents(results).values())
    attempts = results.attempts
    yield "tasks", str(len(results.config.tasks))
    yield "right at the dev and odd shapes", str(sum(a.right for a in attempts))
    yield "right at the perf shapes", str(sum(a.proof is Proof.RIGHT for a in attempts))
    yield "% of the bound, geometric mean", f"{statistics.geometric_mean(percents):.1f}"
    yield "% of the bound, median", f"{statistics.median(percents):.1f}"
    yield "drafts beside the first", str(results.config.optimize.num_drafts or "none")
    yield "seconds a task, median", f"{statistics.median(a.cost.wall_s for a in attempts):.1f}"


def _percents(results: Results) -> dict[str, float]:
    """Percent of the bound by task, of kernels that are right where it is claimed."""
    return {
        attempt.task: attempt.claimed[-1].percent_of_bound
        for attempt in results.attempts
        if attempt.proof is Proof.RIGHT and attempt.claimed
    }


def _write_levels(
    results: Results, percents: Mapping[str, float]
) -> Iterator[tuple[str, str, str, str]]:
    for level in sorted({task.level for task in results.config.tasks}):
        ids = {task.id for task in results.config.tasks if task.level == level}
        right = sum(a.right for a in results.attempts if a.task in ids)
        found = [percents[i] for i in ids if i in percents]
        mean = f"{statistics.geometric_mean(found):.1f}" if found else "none"
        yield str(level), str(len(ids)), str(right), mean


def _write_distribution(percents: Mapping[str, float]) -> str:
    rows = []
    for low, high in zip(BOUNDS, (*BOUNDS[1:], math.inf), strict=True):
        count = sum(low <= p < high for p in percents.values())
        name = f"{low} to {high} %" if high < math.inf else f"{low} % and more"
        rows.append((name, str(count), "█" * round(BAR_WIDTH * count / len(percents))))
    return write_table(("of the bound", "tasks", ""), rows)


def _write_worst(
    results: Results, percents: Mapping[str, float], first: Mapping[str, float]
) -> str:
    by_task = {attempt.task: attempt for attempt in results.attempts}
    rows = []
    for task in sorted(percents, key=lambda t: (percents[t], t))[:WORST]:
        speed = by_task[task].claimed[-1]
        rows.append(
            (
                clean(task),
                f"{percents[task]:.1f}" + (f" (first {first[task]:.1f})" if task in first else ""),
                format_figure(speed.latency_ns / US_NS),
                format_figure(speed.bound_ns / US_NS),
                clean(speed.limited_by),
            )
        )
    return write_table(("task", "% of bound", "µs", "bound, µs", "what bounds it"), rows)


def _write_wrong(results: Results) -> str:
    rows = [
        (clean(a.task), _stage(a), clean(a.message.splitlines()[0]) if a.message else "")
        for a in results.attempts
        if not a.right or a.proof is Proof.WRONG
    ]
    return write_table(("task", "stage", "why"), rows) if rows else "Nothing."


def _stage(attempt: Attempt) -> str:
    if attempt.right:
        return "wrong at the perf shapes"
    return "none" if attempt.stage is None else attempt.stage.value


def _write_kernel(results: Results, task: str, percents: Mapping[str, float]) -> str:
    paths = sorted(results.folder.glob(f"attempts/{task}-*/kernel.py"))
    if not paths:
        raise UsageError(f"`{results.folder}` has no kernel for `{task}`")
    reached = f"| of the bound |\n|---|\n| {percents[task]:.1f} % |\n\n" if task in percents else ""
    source = paths[0].read_text(encoding="utf-8").rstrip()
    return f"## The kernel of {clean(task)}\n\n{reached}```python\n{source}\n```"
