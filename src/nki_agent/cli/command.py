"""What every command shares: from an error to a message and an exit code.

Law: a message names what was found and what to do. A bug of ours leaves its traceback in a file,
not on the screen.
"""

from __future__ import annotations

import errno
import functools
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any

import typer

from nki_agent.base import interrupts
from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import MachineError, NkiAgentError, TaskError, UsageError
from nki_agent.cli.screen import say
from nki_agent.llm.keys import hide_secrets
from nki_agent.llm.protocol import ModelError


class ExitCode(IntEnum):
    """The outcome of a command, for scripts."""

    RIGHT = 0
    NOT_RIGHT = 1
    USAGE = 2
    CHEAT = 3
    FAILURE = 4
    INTERRUPTED = interrupts.INTERRUPTED
    NO_READER = 141
    """Nobody reads stdout any more, as after `| head -1`; the shells' code for it."""


# fmt: off
REFUSALS = frozenset({
    errno.EACCES, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENAMETOOLONG, errno.ENFILE,
    errno.ENOMEM, errno.EPERM, errno.EROFS,
})
# fmt: on
"""Errors of the operating system that say nothing about our code."""


def make_app(function: Callable[..., int]) -> typer.Typer:
    """An app of one command. Its function returns the exit code; errors get theirs here."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(guard(function))
    return app


def make_group(about: str) -> typer.Typer:
    """An app of several commands; each of them calls `guard`. `about` is shown above its list."""
    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

    # Without a callback, an app of one command would have no name for it.
    @app.callback(help=about)
    def group() -> None:
        pass

    return app


def guard(function: Callable[..., int]) -> Callable[..., None]:
    """Turn a returned code, or an error, into an exit with a message."""

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            with interrupts.held():
                code = function(*args, **kwargs)
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            _drop_stdout()
            code = ExitCode.NO_READER
        except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001 - the last place that can say it
            code = report_error(error)
            for note in find_notes(error):
                say(note)
        raise typer.Exit(code)

    return guarded


def _drop_stdout() -> None:
    """Let what is still buffered go nowhere, or Python would complain while it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def was_interrupted(error: BaseException) -> bool:
    """Whether Ctrl-C caused it: packages turn an interrupted import into an error of their own."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause is not None or interrupts.has_come()


def find_notes(error: BaseException) -> list[str]:
    """What was added on the way up, as where the run is kept."""
    return getattr(error, "__notes__", [])


def report_error(error: BaseException) -> ExitCode:
    """Say what went wrong; the exit code that belongs to it."""
    words = hide_secrets(str(error))
    match error:
        case _ if was_interrupted(error):
            say("interrupted")
            return ExitCode.INTERRUPTED
        case TaskError() | UsageError():
            say(f"error: {words}")
            return ExitCode.USAGE
        case MachineError() | ModelError():
            say(f"error: {words}")
            return ExitCode.FAILURE
        case NkiAgentError():
            say(f"error: {words}")
            return ExitCode.NOT_RIGHT
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            say(f"error: cannot write: {error.strerror}")
            return ExitCode.FAILURE
        case OSError() if error.errno in REFUSALS:
            name = "" if error.filename is None else f" `{clean(error.filename)}`"
            say(f"error: this machine refuses{name}: {error.strerror}")
            return ExitCode.FAILURE
        case MemoryError():
            say("error: this machine has too little memory for it")
            return ExitCode.FAILURE
        case _:
            say(f"internal error: {type(error).__name__}: {words}")
            say(f"  this is a bug of nki-agent; {_keep_traceback(error)}")
            return ExitCode.FAILURE


def _keep_traceback(error: BaseException) -> str:
    """Write the traceback to a file and say where it is; the traceback itself if that fails."""
    try:
        return f"the traceback is in {write_crash_log(error)}"
    except OSError:
        return f"its traceback:\n{_write_traceback(error)}"


def write_crash_log(error: BaseException) -> Path:
    """The traceback in a new file of the folder for temporary files."""
    with tempfile.NamedTemporaryFile(
        "w",
        prefix="nki-agent-crash-",
        suffix=".log",
        delete=False,
        encoding="utf-8",
        errors="backslashreplace",
    ) as file:
        file.write(_write_traceback(error))
    return Path(file.name)


def _write_traceback(error: BaseException) -> str:
    return hide_secrets("".join(traceback.format_exception(error)))
