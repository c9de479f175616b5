"""`nki-agent docs index DIR`: a user's own copy of documentation for `look_up`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nki_agent.agent.library import find_library, index_folder, index_path
from nki_agent.base.counting import count_of
from nki_agent.base.errors import UsageError
from nki_agent.cli.command import ExitCode, guard, make_group
from nki_agent.cli.inputs import printable
from nki_agent.cli.screen import say, show

FOLDER_HELP = "A checkout of AWS's Neuron documentation, or any folder of .rst, .md, .txt files."
SKIPPED_SHOWN_MAX = 5

app = make_group(
    "Documentation of your own, for `look_up` to search beside the cards of this program."
)


@app.command()
def index(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help=FOLDER_HELP)],
) -> None:
    """Index a folder of documentation in the place of the last one."""
    guard(_index)(folder)


@app.command()
def status() -> None:
    """Say what is indexed."""
    guard(_status)()


@app.command()
def clear() -> None:
    """Forget the index."""
    guard(_clear)()


def _index(folder: Path) -> ExitCode:
    if not folder.is_dir():
        raise UsageError(f"no folder `{printable(folder)}`")
    found = index_folder(folder.resolve(), index_path())
    for name in found.skipped[:SKIPPED_SHOWN_MAX]:
        say(f"note: left out {name}: too large, or it cannot be read")
    if len(found.skipped) > SKIPPED_SHOWN_MAX:
        say(f"note: and {len(found.skipped) - SKIPPED_SHOWN_MAX} more")
    counts = f"{count_of(found.files, 'file')}, {count_of(found.passages, 'passage')}"
    say(f"{counts}; index: {index_path()}")
    return ExitCode.RIGHT


def _status() -> ExitCode:
    library = find_library()
    if library is None:
        show("nothing is indexed; `nki-agent docs index DIR` does it")
        return ExitCode.RIGHT
    found = library.describe()
    show(f"folder      {found.folder}\nfiles       {found.files}\npassages    {found.passages}")
    show(f"hash        {library.hash}\nindex       {library.path}")
    return ExitCode.RIGHT


def _clear() -> ExitCode:
    try:
        index_path().unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot remove `{index_path()}`: {error.strerror}") from error
    return ExitCode.RIGHT
