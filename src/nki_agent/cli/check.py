"""`nki-agent check FILE…`: what reading the source alone can say, and with `--fix` change.

Law: `--fix` writes a named file only where its text changes, and shows each change on stderr.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from nki_agent.base.bounded import IrregularError, TooLargeError, read_bounded
from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.base.errors import UsageError
from nki_agent.base.writing import path_error
from nki_agent.check.fixing import fix_source
from nki_agent.check.source import check_source
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import DEFAULT_TARGET, Target
from nki_agent.cli.command import ExitCode, make_app
from nki_agent.cli.inputs import (
    JSON_HELP,
    SURFACE_HELP,
    TARGET_HELP,
    printable,
    read_kernel,
    read_target,
)
from nki_agent.cli.screen import say, show, show_json
from nki_agent.verify.kernel import SOURCE_BYTES_MAX, Kernel

CHEATS = "NK9"
FIX_HELP = "Apply the fixes that are mechanical to the named files, and show them."
_KERNEL = re.compile(
    r"^\s*(?:import|from)\s+(?:nki|neuronxcc)\b.*\bjit\b", re.MULTILINE | re.DOTALL
)


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """One file and what was found in it."""

    file: str
    diagnostics: tuple[Diagnostic, ...]
    num_fixes: int = 0


def check(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="Kernel files, or folders to look for them in."),
    ],
    *,
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = DEFAULT_TARGET.value,
    surface: Annotated[Surface, typer.Option(help=SURFACE_HELP)] = Surface.NKI,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    fix: Annotated[bool, typer.Option("--fix", help=FIX_HELP)] = False,
) -> ExitCode:
    """Read kernel source, run nothing, say what is wrong with it."""
    chosen = read_target(target)
    check_one = _fix if fix else _check
    checked = [check_one(path, chosen, surface) for path in dict.fromkeys(_find_kernels(files))]
    if as_json:
        show_json(checked)
    else:
        for one in checked:
            for diagnostic in one.diagnostics:
                show(str(diagnostic))
    found = [d for one in checked for d in one.diagnostics]
    errors = [d for d in found if d.severity is Severity.ERROR]
    fixed = f", {_count(sum(one.num_fixes for one in checked), 'fix', 'fixes')}" if fix else ""
    say(f"{_count(len(checked), 'file')}, {_count(len(errors), 'error')}{fixed}")
    return _exit_code(errors)


def _count(number: int, noun: str, many: str = "") -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {many or noun + 's'}"


def _exit_code(errors: Sequence[Diagnostic]) -> ExitCode:
    if any(d.code.startswith(CHEATS) for d in errors):
        return ExitCode.CHEAT
    return ExitCode.NOT_RIGHT if errors else ExitCode.RIGHT


def _check(path: Path, target: Target, surface: Surface) -> Checked:
    kernel = read_kernel(path)
    found = check_source(kernel.files, kernel.main, target=target, surface=surface)
    return Checked(
        file=printable(path), diagnostics=tuple(_place(d, path.parent, kernel) for d in found)
    )


def _fix(path: Path, target: Target, surface: Surface) -> Checked:
    """Apply the edits that findings carry; line ends stay as they are."""
    kernel = read_kernel(path)
    source = path.read_bytes().decode("utf-8")
    fixed = fix_source(
        {**kernel.files, kernel.main: source}, kernel.main, target=target, surface=surface
    )
    if fixed.text != source:
        _write(path, fixed.text)
        before, after = source.splitlines(), fixed.text.splitlines()
        for line in difflib.unified_diff(before, after, str(path), str(path), lineterm="", n=1):
            say(line)
    placed = tuple(_place(d, path.parent, kernel) for d in fixed.findings)
    return Checked(file=str(path), diagnostics=placed, num_fixes=fixed.num_fixes)


def _write(path: Path, text: str) -> None:
    try:
        path.write_bytes(text.encode())
    except OSError as error:
        hint = "nothing was changed; check the file's permissions"
        raise path_error(f"write `{path}`", error, hint=hint) from error


def _place(diagnostic: Diagnostic, folder: Path, kernel: Kernel) -> Diagnostic:
    """Name files as the user did, not by their last part."""
    where = tuple(
        msgspec.structs.replace(frame, file=printable(folder / frame.file))
        if frame.file in kernel.files
        else frame
        for frame in diagnostic.where
    )
    edits = tuple(
        msgspec.structs.replace(edit, file=str(folder / edit.file)) for edit in diagnostic.edits
    )
    return msgspec.structs.replace(diagnostic, where=where, edits=edits)


def _find_kernels(paths: Sequence[Path]) -> Iterator[Path]:
    """Files that were named, and in folders those that import NKI and use `jit`."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = [file for file in sorted(path.rglob("*.py")) if _is_kernel(file)]
        if not found:
            raise UsageError(
                f"no kernel in the folder `{path}`",
                hint="a kernel file imports `nki` and has a `@nki.jit` function",
            )
        yield from found


def _is_kernel(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        text = read_bounded(path, SOURCE_BYTES_MAX).decode("utf-8", "replace")
        return bool(_KERNEL.search(text))
    except (TooLargeError, IrregularError):
        return False
    except OSError as error:
        raise UsageError(f"cannot read `{path}`: {error.strerror}") from error


app = make_app(check)
