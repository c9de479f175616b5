"""`nki-agent report RUN`: one run as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nki_agent.base.errors import UsageError
from nki_agent.cli.command import ExitCode, make_app
from nki_agent.cli.inputs import as_word
from nki_agent.cli.screen import show
from nki_agent.report.run_page import write_run_page
from nki_agent.report.stored import read_run

RUN_HELP = "A run's folder, or a file with a trajectory."
OUT_HELP = "Where the page is written; report.html in the run's folder if left out."
ATTEMPTS = "attempts.jsonl"


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help=RUN_HELP)],
    *,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help=OUT_HELP)] = None,
) -> ExitCode:
    """Write a run as one page: attempts, verdicts, latency over turns, cost, the kernel."""
    if (run / ATTEMPTS).exists():
        raise UsageError(
            f"`{run}` is a run of the benchmark",
            hint=f"`nki-agent bench report {as_word(run)} --html FILE`;"
            " its attempts have pages one by one",
        )
    page = write_run_page(read_run(run))
    path = (run.parent if run.is_file() else run) / "report.html" if out is None else out
    try:
        path.write_text(page, encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(
            f"cannot write `{path}`: {error.strerror}", hint="name another place with `--out FILE`"
        ) from error
    show(str(path))
    return ExitCode.RIGHT


app = make_app(report)
