"""`nki-agent replay RUN`: a run's conversation again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nki_agent.base.errors import UsageError
from nki_agent.cli.command import ExitCode, make_app
from nki_agent.cli.conversation import paint_line
from nki_agent.cli.inputs import as_word
from nki_agent.cli.screen import Colour, paint, say, show
from nki_agent.evals.results import LINES
from nki_agent.evals.run import ATTEMPTS
from nki_agent.llm.recorded import TRAJECTORY
from nki_agent.report.stored import StoredRun, StoredSample, read_run
from nki_agent.report.transcript import Transcript

RUN_HELP = "A run's folder, or a file with a trajectory."
PROMPTS_HELP = "Show the system prompt and the task in full too."


def replay(
    run: Annotated[Path, typer.Argument(metavar="RUN", help=RUN_HELP)],
    *,
    prompts: Annotated[bool, typer.Option("--prompts", help=PROMPTS_HELP)] = False,
) -> ExitCode:
    """Show the conversation of a run: what the model said, each kernel, each answer."""
    _refuse_evaluation(run)
    found = read_run(run)
    for sample in found.samples:
        if len(found.samples) > 1:
            show(paint(write_sample_head(found, sample), Colour.GOOD))
        transcript = Transcript(with_prompts=prompts)
        for event in sample.events:
            for line in transcript.write(event):
                show(paint_line(line))
        if sample.finished is None:
            say("note: the run was cut off here")
    if found.error is not None:
        say(f"note: {found.error.strip()}")
    return ExitCode.RIGHT


def write_sample_head(run: StoredRun, sample: StoredSample) -> str:
    """Which of several samples follows."""
    best = ": its kernel counts" if run.kernel is not None and sample is run.best else ""
    return f"== sample {sample.number} of {len(run.samples)}{best}"


def _refuse_evaluation(run: Path) -> None:
    """A run of the benchmark has many conversations: say where they are."""
    if (run / LINES).is_file():
        raise UsageError(
            f"`{run}` is a run of the benchmark, with a conversation for each attempt",
            hint=f"name one: `nki-agent replay {as_word(_find_attempt(run / ATTEMPTS))}`",
        )


def _find_attempt(folder: Path) -> Path:
    found = sorted(p.parent for p in folder.rglob(TRAJECTORY)) if folder.is_dir() else []
    return found[0] if found else folder / "ID"


app = make_app(replay)
