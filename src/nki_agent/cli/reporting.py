"""`nki-agent bench report | compare | baseline`: what evaluations have found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from nki_agent.base.errors import UsageError
from nki_agent.base.writing import write_text
from nki_agent.bench.attempt import Proof
from nki_agent.bench.baselines import Baseline, Entry
from nki_agent.check.surface import Surface
from nki_agent.cli.command import ExitCode, guard
from nki_agent.cli.inputs import JSON_HELP
from nki_agent.cli.screen import say, show, show_json
from nki_agent.evals.results import Results, read_results, require_comparable
from nki_agent.report.markdown import write_comparison, write_report
from nki_agent.report.page import write_page

COMPARED_MIN = 2
RUN_HELP = "The folder that `bench run` made."
PAGE_HELP = "Write one HTML page to this file too."


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help=RUN_HELP)],
    *,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help=PAGE_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Tables of one run: by level and category, with intervals, costs and causes."""

    def write() -> ExitCode:
        results = read_results(run)
        _show([results], write_report(results), html=html, as_json=as_json)
        return ExitCode.RIGHT

    guard(write)()


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Two runs or more.")],
    *,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help=PAGE_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Runs over the same tasks side by side; such of other versions are refused."""

    def write() -> ExitCode:
        results = [read_results(run) for run in dict.fromkeys(runs)]
        if len(results) < COMPARED_MIN:
            raise UsageError(
                f"`{runs[0]}` alone is no comparison",
                hint="name two runs or more; for one there is `nki-agent bench report`",
            )
        require_comparable(results)
        _show(results, write_comparison(results), html=html, as_json=as_json)
        return ExitCode.RIGHT

    guard(write)()


def baseline(
    run: Annotated[Path, typer.Argument(metavar="RUN", help=RUN_HELP)],
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the baseline is written.")],
) -> None:
    """Freeze the latencies of a run's right kernels, to measure speedups against."""

    def write() -> ExitCode:
        results = read_results(run)
        found = make_baseline(results)
        text = msgspec.json.format(msgspec.json.encode(found), indent=1)
        write_text(out, text.decode() + "\n")
        say(f"{len(found.entries)} latencies of {results.name} written to {out}")
        return ExitCode.RIGHT

    guard(write)()


def make_baseline(results: Results) -> Baseline:
    """The latencies at the perf shapes of kernels that are right there.

    Raises:
        UsageError: the run tried no perf shapes, or is on a surface that baselines are not on.
    """
    if results.config.surface is not Surface.NKI:
        raise UsageError(
            f"`{results.folder}` is on the surface `{results.config.surface.value}`",
            hint=f"speedups on every surface are against kernels on `{Surface.NKI.value}`",
        )
    if not results.config.perf:
        raise UsageError(
            f"`{results.folder}` tried no perf shapes", hint="run it again with `--perf`"
        )
    entries = [
        Entry(
            task=attempt.task,
            target=attempt.target,
            shapes=speed.shapes,
            latency_ns=speed.latency_ns,
            kernel_hash=attempt.kernel_hash or "",
        )
        for attempt in results.attempts
        if attempt.proof is Proof.RIGHT
        for speed in attempt.claimed
    ]
    if past := sorted({a.task for a in results.attempts if a.is_past_bound}):
        raise UsageError(
            f"faster than their bound: {', '.join(past)}",
            hint="the bound or the cost model is wrong there; put it right first",
        )
    versions = results.config.versions
    return Baseline(
        suite=versions.suite,
        suite_hash=versions.suite_hash,
        cost_model=versions.cost_model,
        author=results.config.model,
        entries=tuple(sorted(entries, key=lambda e: (e.task, e.target, e.shapes))),
    )


def _show(results: list[Results], text: str, *, html: Path | None, as_json: bool) -> None:
    if html is not None:
        write_text(html, write_page(results))
        say(f"page: {html}")
    if as_json:
        show_json([{"config": found.config, "groups": list(found.groups())} for found in results])
    else:
        show(text)
