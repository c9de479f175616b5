"""`nki-agent bench …`: suites of tasks, and authors measured on them."""

from __future__ import annotations

from nki_agent.cli.command import make_group
from nki_agent.cli.evaluating import run
from nki_agent.cli.importing import import_suite
from nki_agent.cli.reporting import baseline, compare, report
from nki_agent.cli.suites import hide, list_tasks, show_task

app = make_group("Suites of tasks, and authors measured on them.")


app.command("list")(list_tasks)
app.command("show")(show_task)
app.command("import")(import_suite)
app.command("hide")(hide)
app.command("run")(run)
app.command("report")(report)
app.command("compare")(compare)
app.command("baseline")(baseline)
