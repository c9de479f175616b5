"""`nki-agent data stats DIR`: what a corpus holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from nki_agent.base.diagnostic import clean
from nki_agent.base.writing import write_text
from nki_agent.cli.command import ExitCode, guard
from nki_agent.cli.data_solve import Folder, open_tasks
from nki_agent.cli.inputs import JSON_HELP
from nki_agent.cli.screen import say, show, show_json, write_table
from nki_agent.corpus.page import write_stats_page
from nki_agent.corpus.release import check_manifest, read_rejected
from nki_agent.corpus.stats import Stats, count_tasks

HTML_HELP = "Write the figures as one page there."
SHOWN = 12


def data_stats(
    folder: Folder,
    *,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help=HTML_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Count what a corpus holds; says which of its files are not as they were made."""

    def begin() -> ExitCode:
        tasks, broken = open_tasks(folder)
        stats = count_tasks(tasks, read_rejected(folder))
        if html is not None:
            write_text(html, write_stats_page(stats, title=f"Corpus {folder.name}"))
        if as_json:
            show_json(stats)
        else:
            show("\n".join(_write(stats)))
        faults = check_manifest(folder)
        for fault in faults:
            say(f"changed   {clean(fault)}")
        if faults:
            return ExitCode.NOT_RIGHT
        return ExitCode.USAGE if broken else ExitCode.RIGHT

    guard(begin)()


def _write(stats: Stats) -> Iterator[str]:
    yield (
        f"{stats.tasks:,} tasks, {stats.graphs:,} graphs, {stats.patterns:,} patterns,"
        f" {stats.operators_seen:,} operators"
    )
    for title, counts in (
        ("split", stats.by_split),
        ("bound", stats.by_bound),
        ("family", stats.by_family),
        ("level", stats.by_level),
        ("rank", stats.by_rank),
        ("dtype", stats.by_dtype),
        ("operator", dict(list(stats.by_operator.items())[:SHOWN])),
        ("rejected", {turned.reason.value: turned.count for turned in stats.rejected}),
    ):
        if counts:
            # A task has several operators; the others are shares of what is counted.
            total = stats.tasks if title == "operator" else sum(counts.values())
            yield ""
            yield from _write_counts(title, counts, total=total)


def _write_counts(title: str, counts: Mapping[str, int], *, total: int) -> list[str]:
    rows = [[name, f"{count:,}", f"{count / total:.1%}"] for name, count in counts.items()]
    return write_table([[title, "number", "share"], *rows])
