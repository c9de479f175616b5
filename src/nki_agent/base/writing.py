"""Whose fault it is that something cannot be written.

Law: a place that the user named and that does not take it (no such folder, a folder, a file in the
way, no permission) is a mistake of the command line, exit code 2. What any place would meet (the
disk is full or fails, no descriptors, no memory) is the machine's, exit code 4. What a command that
fails has made of folders is taken away again.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from nki_agent.base.errors import MachineError, UsageError

SHORTAGES: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO}
)
"""Errors of the operating system that are the machine's, whatever was named."""


def path_error(what: str, error: OSError, *, hint: str = "") -> UsageError | MachineError:
    """The error for `cannot {what}`, to be raised from the one of the operating system."""
    message = f"cannot {what}: {error.strerror or error}"
    if error.errno in SHORTAGES:
        return MachineError(message)
    return UsageError(message, hint=hint)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a crash or a full disk leaves the old one or the new one."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError:
        with suppress(OSError):
            part.unlink()
        raise


def write_text(path: Path, text: str, *, what: str = "write") -> None:
    """Write a file that the user named: see `writing`."""
    with writing(path, what=what):
        path.write_text(text, encoding="utf-8")


@contextmanager
def writing(path: Path, *, what: str = "write") -> Iterator[None]:
    """The block writes a file that the user named; where it fails, no new file is left.

    Raises:
        UsageError: It cannot be written there.
        MachineError: It could be written nowhere on this machine.
    """
    is_new = not os.path.lexists(path)
    try:
        yield
    except BaseException as error:
        if is_new:
            with suppress(OSError):
                path.unlink()
        if isinstance(error, OSError):
            raise path_error(f"{what} `{path}`", error) from error
        raise


class NewFolder:
    """A folder that a command fills; see `new_folder`."""

    def __init__(self, path: Path) -> None:
        """Nothing is made yet."""
        self.path = path
        self.is_kept = False
        """Whether what is in it stays when the command fails, so that it can go on."""
        self._made = [p for p in (path, *path.parents) if not os.path.lexists(p)]

    def empty(self) -> None:
        """Take away all that is in it."""
        with suppress(OSError):
            for found in self.path.iterdir():
                if found.is_dir() and not found.is_symlink():
                    shutil.rmtree(found, ignore_errors=True)
                else:
                    found.unlink()

    def unmake(self) -> None:
        """Take away the folders that were not there before, as far as they are empty."""
        for made in self._made:
            with suppress(OSError):
                made.rmdir()


@contextmanager
def new_folder(path: Path, *, hint: str) -> Iterator[NewFolder]:
    """Make a folder, or take an empty one; where the block fails it is as it was before.

    Raises:
        UsageError: It holds something, or cannot be made.
        MachineError: The machine fails.
    """
    folder = NewFolder(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        is_empty = not any(path.iterdir())
    except OSError as error:
        folder.unmake()
        raise path_error(f"write to `{path}`", error, hint=hint) from error
    if not is_empty:
        raise UsageError(f"`{path}` is not empty", hint=hint)
    try:
        yield folder
    except BaseException:
        if not folder.is_kept:
            folder.empty()
            folder.unmake()
        raise
