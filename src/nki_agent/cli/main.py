"""The entry of `nki-agent`: names of the commands, and what each exit code means.

Law: a command's module is imported when that command is called, so `--help` and completion stay
quick. Data goes to stdout, talk to stderr.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from nki_agent import __version__
from nki_agent.base.interrupts import install

HELP = """Writes NKI kernels for AWS Trainium and Inferentia, proves them right, says how fast.

Exit codes: 0 right, 1 not right, 2 usage, 3 the kernel cheats, 4 our own or the machine's failure.
"""
COMMANDS = {
    "solve": "Write a kernel for a task, and fix it until it is right.",
    "resume": "Go on with a run where it stopped.",
    "replay": "Show the conversation of a run again.",
    "report": "Write a run as one HTML page.",
    "fix": "Repair a kernel of yours until it is right.",
    "optimize": "Make a right kernel of yours faster.",
    "verify": "Judge a kernel for a task.",
    "check": "Read kernel source, run nothing, say what is wrong with it.",
    "profile": "Say where a kernel's time goes, and what bounds it.",
    "show": "List a kernel's traced instructions with their source lines.",
    "task": "Whether task files are fit to judge kernels by.",
    "run": "Run a script that imports `nki`, on our simulator.",
    "bench": "Suites of tasks, and authors measured on them.",
    "data": "Training tasks, their verified solutions, and trajectories.",
    "train": "Train a model: on dialogues, then by what the judge says of its own kernels.",
    "skill": "Write a skill folder for a coding agent.",
    "workspace": "Lay out a task for a coding agent, and judge what it wrote.",
    "docs": "Documentation of your own, for `look_up` to search too.",
    "mcp": "Serve the tools to another agent, by the Model Context Protocol.",
    "sandbox": "What this machine offers to hold untrusted kernels.",
    "explain": "What a diagnostic code means, and what to do.",
}
"""Each is a module of this room with an `app`, but for those of a room beside it."""
ELSEWHERE = {"mcp": "nki_agent.mcp.command"}


class Commands(TyperGroup):
    """Knows every command by name; imports one when it is called or completed."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Put the real command in the place of its stand-in."""
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            try:
                command = load_command(name)
            except KeyboardInterrupt as error:
                # Typer would exit with 1, which means not right.
                raise typer.Exit(_report(error)) from error
        return name, command, rest


def load_command(name: str) -> Any:
    """The command with its options."""
    module = importlib.import_module(ELSEWHERE.get(name, f"nki_agent.cli.{name}"))
    return typer.main.get_command(module.app)


app = typer.Typer(
    cls=Commands,
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _stand_in(name: str, summary: str) -> Callable[[], None]:
    def command() -> None:
        raise AssertionError("replaced in resolve_command")

    command.__doc__ = summary
    app.command(name)(command)
    return command


for _name, _summary in COMMANDS.items():
    _stand_in(_name, _summary)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"nki-agent {__version__}")
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Options before the command."""
    del version  # its callback has run


def main() -> None:
    """Run the command line of this process; also a broken installation ends with a message."""
    install()
    try:
        app(prog_name="nki-agent")
    except Exception as error:  # noqa: BLE001 - the last place that can still say something
        sys.exit(_report(error))


def _report(error: BaseException) -> int:
    report: Callable[[BaseException], int] = importlib.import_module(
        "nki_agent.cli.command"
    ).report_error
    return report(error)
