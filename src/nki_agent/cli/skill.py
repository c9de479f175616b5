"""`nki-agent skill DIR`: a skill folder for a coding agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nki_agent.agent.skill import FOLDERS, Agent, place_skill, write_skill
from nki_agent.base.counting import count_of
from nki_agent.chip.spec import DEFAULT_TARGET
from nki_agent.cli.command import ExitCode, make_app
from nki_agent.cli.inputs import TARGET_HELP, read_target
from nki_agent.cli.screen import say, show

FOLDER_HELP = "The skill's folder; with `--for`, the project's."
FOR_HELP = "Put it where this agent looks for skills in a project."
FORCE_HELP = "Write among other files, and over those that are not ours or were changed."


def skill(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help=FOLDER_HELP)],
    *,
    agent: Annotated[Agent | None, typer.Option("--for", help=FOR_HELP)] = None,
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = DEFAULT_TARGET.value,
    force: Annotated[bool, typer.Option("--force", help=FORCE_HELP)] = False,
) -> ExitCode:
    """Write what a coding agent needs to know to write NKI kernels with this program."""
    place = place_skill(folder, agent)
    written = write_skill(place, target=read_target(target), forces=force)
    size = sum(path.stat().st_size for path in written)
    show(str(place / "SKILL.md"))
    say(f"{count_of(len(written), 'file')}, {size // 1024} KiB; tools by MCP: `nki-agent mcp`")
    if agent is None:
        places = ", ".join(f"{name.value} in {where}" for name, where in FOLDERS.items())
        say(f"agents look for it, as {place.absolute().name}, at: {places}")
    return ExitCode.RIGHT


app = make_app(skill)
