"""A kernel as untrusted source text: its main file and the helper modules beside it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nki_agent.base.bounded import UnreadableError, read_text
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_files
from nki_agent.check.rules.nk107_imports import ALLOWED

MAIN_NAME = "kernel.py"
SOURCE_BYTES_MAX = 2 * 2**20
"""A larger source file is refused, and no more of it is read."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """Source files by the name that messages show; `main` holds the entry."""

    files: dict[str, str]
    main: str

    @property
    def source(self) -> str:
        """Text of the main file."""
        return self.files[self.main]

    @property
    def hash(self) -> str:
        """Hash of the whole source tree."""
        return hash_files(self.files)

    @classmethod
    def from_text(cls, text: str) -> Kernel:
        """A kernel of one file."""
        return cls({MAIN_NAME: text}, MAIN_NAME)

    @classmethod
    def from_path(cls, path: Path) -> Kernel:
        """Read a kernel and the helper modules beside it that it imports.

        Raises:
            UsageError: The file cannot be read as text.
        """
        main = path.name.encode("utf-8", "replace").decode()
        files = {main: read_source(path)}
        pending = [main]
        while pending:
            name = pending.pop()
            package = name.split("/")[:-1]
            for module in _imported_modules(files[name], package=package):
                for file in ("/".join(module) + ".py", "/".join((*module, "__init__.py"))):
                    beside = path.parent / file
                    if file not in files and beside.is_file():
                        files[file] = read_source(beside)
                        pending.append(file)
        return cls(files, main)


def read_source(path: Path) -> str:
    """Text of a source file; UsageError that says why it cannot be read."""
    try:
        return read_text(path, SOURCE_BYTES_MAX)
    except UnreadableError as error:
        if error.is_missing:
            raise UsageError(f"no file `{path}`", hint="check the path") from error
        raise UsageError(f"`{path}` {error}", hint="name a Python file") from error


def _imported_modules(source: str, *, package: Sequence[str]) -> set[tuple[str, ...]]:
    """Modules that a source in `package` may import, and the packages around them; a superset."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()  # the checker says so
    named: list[tuple[str, ...]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named += [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = tuple(package[: len(package) - node.level + 1]) if node.level else ()
            base = (*above, *(node.module.split(".") if node.module else ()))
            named += [base, *((*base, alias.name) for alias in node.names)]
    found = {module[:end] for module in named for end in range(1, len(module) + 1)}
    return {module for module in found if module[0] not in ALLOWED}
