"""The files of a suite, found without trusting its folder.

Law: links to folders are not followed, and a link that leaves the suite's folder is not read. A
file that cannot be read, is no text, or is larger than any task is a problem with its reason.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_files

SUFFIXES: Final = (".py", ".json", ".jsonl", ".txt")
FILE_BYTES_MAX: Final = 64 << 20
TOTAL_BYTES_MAX: Final = 1 << 30
FILES_MAX: Final = 20_000
SKIPPED_FOLDERS: Final = frozenset({".git", "__pycache__", ".venv", "node_modules"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Texts by their paths below the suite's folder, in natural order."""

    name: str
    texts: Mapping[str, str]
    problems: Mapping[str, str]
    """Why a file could not be read."""

    @property
    def hash(self) -> str:
        """Of all names and contents."""
        return hash_files(self.texts)

    def named(self, *suffixes: str) -> dict[str, str]:
        """The files that end so."""
        return {path: text for path, text in self.texts.items() if path.endswith(suffixes)}


def read_listing(path: Path) -> Listing:
    """Read one file, or every file of a folder that a format may need.

    Raises:
        UsageError: there is no such path, nothing in it, or far too much.
    """
    if not path.exists():
        what = "is a link to nothing" if path.is_symlink() else "does not exist"
        raise UsageError(f"`{path}` {what}", hint="name a suite's folder or file")
    root = path if path.is_dir() else path.parent
    problems: dict[str, str] = {}
    files = _walk(path, problems) if path.is_dir() else [path]
    texts: dict[str, str] = {}
    total = 0
    for file in files:
        relative = _printable(file.relative_to(root).as_posix())
        text, problem = _read(file, root.resolve())
        if problem:
            problems[relative] = problem
            continue
        texts[relative] = text
        total += len(text)
        if total > TOTAL_BYTES_MAX:
            raise UsageError(f"`{path}` holds over {TOTAL_BYTES_MAX >> 20} MiB of text")
    if not texts and not problems:
        raise UsageError(
            f"`{path}` holds no {', '.join(SUFFIXES)} file", hint="name a suite's folder or file"
        )
    return Listing(name=path.resolve().stem, texts=texts, problems=problems)


def _walk(root: Path, problems: dict[str, str]) -> list[Path]:
    found: list[Path] = []

    def note(error: OSError) -> None:
        if Path(error.filename) == root:
            raise UsageError(f"the folder `{root}` cannot be read: {error.strerror}") from error
        folder = Path(error.filename).relative_to(root).as_posix()
        problems[_printable(folder)] = f"the folder cannot be read: {error.strerror}"

    for folder, folders, names in os.walk(root, onerror=note):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        found += [Path(folder) / name for name in names if name.endswith(SUFFIXES)]
        if len(found) > FILES_MAX:
            raise UsageError(f"`{root}` holds over {FILES_MAX:,} files", hint="name a part of it")
    return sorted(found, key=lambda file: natural_key(str(file)))


def _printable(path: str) -> str:
    return path.encode("utf-8", "replace").decode()


def natural_key(text: str) -> list[tuple[int, int, str]]:
    """Sorts `2_x` before `10_x`."""
    return [
        (0, int(part), "") if part.isdigit() and part.isascii() else (1, 0, part)
        for part in re.split(r"([0-9]+)", text)
        if part
    ]


def _read(file: Path, root: Path) -> tuple[str, str]:
    """Text and no problem, or no text and a problem."""
    try:
        real = file.resolve(strict=True)
        if not real.is_relative_to(root):
            return "", "a link out of the suite's folder"
        if not real.is_file():
            return "", "no regular file"
        with real.open("rb") as opened:
            data = opened.read(FILE_BYTES_MAX + 1)
    except RuntimeError:
        return "", "a link in a circle"  # what `resolve` raises up to Python 3.12
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "", "a link in a circle"
        return "", f"it cannot be read: {error.strerror}"
    if len(data) > FILE_BYTES_MAX:
        return "", f"it has over {FILE_BYTES_MAX >> 20} MiB, more than any task"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "", "it is not text in UTF-8"
    # As Python reads its files: other line ends would shift the lines that are counted here.
    return text.replace("\r\n", "\n").replace("\r", "\n"), ""
