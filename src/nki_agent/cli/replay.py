"""`nki-agent replay RUN`: a run's conversation again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nki_agent.cli.command import ExitCode, make_app
from nki_agent.cli.conversation import paint_line
from nki_agent.cli.screen import say, show
from nki_agent.report.stored import read_run
from nki_agent.report.transcript import Transcript

RUN_HELP = "A run's folder, or a file with a trajectory."
PROMPTS_HELP = "Show the system prompt and the task in full too."


def replay(
    run: Annotated[Path, typer.Argument(metavar="RUN", help=RUN_HELP)],
    *,
    prompts: Annotated[bool, typer.Option("--prompts", help=PROMPTS_HELP)] = False,
) -> ExitCode:
    """Show the conversation of a run: what the model said, each kernel, each answer."""
    found = read_run(run)
    transcript = Transcript(with_prompts=prompts)
    for event in found.events:
        for line in transcript.write(event):
            show(paint_line(line))
    if found.finished is None:
        say("note: the run was cut off here")
    if found.error is not None:
        say(f"note: {found.error.strip()}")
    return ExitCode.RIGHT


app = make_app(replay)
