"""`nki-agent bench …`: suites of tasks, and authors measured on them."""

from __future__ import annotations

import typer

from nki_agent.cli.evaluating import run
from nki_agent.cli.importing import import_suite
from nki_agent.cli.reporting import baseline, compare, report
from nki_agent.cli.suites import hide, list_tasks, show_task

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def bench() -> None:
    """Suites of tasks, and authors measured on them."""


app.command("list")(list_tasks)
app.command("show")(show_task)
app.command("import")(import_suite)
app.command("hide")(hide)
app.command("run")(run)
app.command("report")(report)
app.command("compare")(compare)
app.command("baseline")(baseline)
