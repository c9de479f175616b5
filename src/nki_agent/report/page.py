"""Evaluations as one HTML page: tables, charts and every attempt; no script from elsewhere.

Law: text that came from a model, a kernel or a task is escaped, always; the page works from disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from string import Template

from nki_agent.base.diagnostic import clean
from nki_agent.bench.attempt import Attempt
from nki_agent.evals.results import ALL, Results
from nki_agent.report.chart import draw_percents, draw_shares, draw_speedups
from nki_agent.report.figures import NONE, write_us
from nki_agent.report.markdown import (
    FIRST,
    write_comparison,
    write_costs,
    write_depth,
    write_ends,
    write_groups,
    write_head,
)

COLUMNS = (
    *("task", "level", "category", "target", "attempt", "stage", "end", "latency µs"),
    *("% of bound", "speedup", "turns", "errors"),
)


def write_page(results: Sequence[Results]) -> str:
    """One page for one evaluation, or for several side by side."""
    names = ", ".join(found.name for found in results)
    body = []
    if len(results) > 1:
        body.append(f"<h2>Side by side</h2>{make_table(write_comparison(results))}")
    for found in results:
        body += list(_write_sections(found))
    return fill_page(names, body)


def fill_page(title: str, body: Sequence[str]) -> str:
    """A whole page; `body` is HTML, the title is text."""
    template = Template(files("nki_agent.report").joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(title=escape(clean(title)), body="\n".join(body))


def _write_sections(results: Results) -> Iterator[str]:
    groups = list(results.groups())
    whole = [group for group in groups if group.kind == ALL]
    yield f"<h2>{escape(clean(results.name))}</h2>"
    items = "".join(
        f"<li>{_inline(line.removeprefix('- '))}</li>" for line in write_head(results).splitlines()
    )
    yield f"<ul>{items}</ul>"
    yield make_table(write_groups(whole))
    for kind in ("level", "category"):
        chosen = [group for group in groups if group.kind == kind]
        if chosen:
            rows = [(f"{g.name} ({g.target})", g.scores.right) for g in chosen]
            yield draw_shares(rows, title=f"Right, by {kind} (%, 95 % interval)")
            fast = [
                (f"{g.name} ({g.target})", g.scores.fast[FIRST]) for g in chosen if g.scores.fast
            ]
            if fast:
                yield draw_shares(fast, title=f"Faster than the baseline, by {kind}")
            table = make_table(write_groups(chosen))
            yield f"<details><summary>By {kind}</summary>{table}</details>"
    yield from _write_speeds(results.attempts)
    for group in whole:
        yield f"<h3>Attempts and speed, {escape(group.target)}</h3>"
        yield make_table(write_depth(group.scores))
    yield f"<h3>What it cost</h3>{make_table(write_costs(whole))}"
    table, _, codes = write_ends(results).partition("\n\n")
    yield f"<h3>How attempts ended</h3>{make_table(table)}<p>{_inline(codes)}</p>"
    yield _write_attempts(results.attempts)


def _write_speeds(attempts: Sequence[Attempt]) -> Iterator[str]:
    percents = [(_label(a), a.percent_of_bound) for a in attempts if a.percent_of_bound is not None]
    if percents:
        yield draw_percents(percents, title="Percent of bound of kernels right at the perf shapes")
    speedups = [(_label(a), a.speedup) for a in attempts if a.speedup is not None]
    if speedups:
        yield draw_speedups(speedups, title="Speedup over the baseline")


def _label(attempt: Attempt) -> str:
    return f"{clean(attempt.task)} ({attempt.target})"


def _write_attempts(attempts: Sequence[Attempt]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in COLUMNS)
    rows = "\n".join(map(_write_attempt, attempts))
    return (
        f'<h3>Every attempt</h3><table class="sortable"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _write_attempt(attempt: Attempt) -> str:
    speed = attempt.speeds[-1] if attempt.speeds else None
    speedup, percent = attempt.speedup, None if speed is None else speed.percent_of_bound
    task = escape(clean(attempt.task))
    if attempt.trajectory is not None:
        task = f'<a href="{escape(attempt.trajectory)}">{task}</a>'
    cells = (
        task,
        str(attempt.level),
        escape(clean(attempt.category)),
        escape(attempt.target),
        str(attempt.sample),
        escape(attempt.stage.value if attempt.stage else NONE),
        escape(clean(attempt.end)),
        NONE if speed is None else f"{write_us(speed.latency_ns)} ({escape(speed.shapes)})",
        NONE if percent is None else f"{percent:.1f}",
        NONE if speedup is None else f"{speedup:.2f}",
        str(attempt.cost.turns),
        escape(clean(", ".join(attempt.codes) or attempt.message)),
    )
    kind = "right" if attempt.right else "not-right"
    return f'<tr class="{kind}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def make_table(markdown: str) -> str:
    """A table of `markdown.write_table` as HTML."""
    lines = [_split(line) for line in markdown.splitlines() if line.startswith("|")]
    if not lines:
        return ""
    head, _, *rows = lines
    cells = "".join(f"<th>{_inline(cell)}</th>" for cell in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{_inline(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def _split(line: str) -> list[str]:
    bar = "\0"
    cells = line.replace("\\|", bar).strip().strip("|").split("|")
    return [cell.strip().replace(bar, "|") for cell in cells]


def _inline(text: str) -> str:
    """Escaped, with `code` between backticks."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return "".join(f"<code>{p}</code>" if n % 2 else p for n, p in enumerate(parts))
