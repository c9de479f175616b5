"""A task file and the modules beside it as text, for a process that may open no file.

Law: only modules that the text names in an import statement are gathered, from the file's own
folder; what stands in the standard library or is installed wins, as it does for a file on disk.
Not covered: modules that are imported by a name made at run time, and files of data.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from nki_agent.base.errors import TaskError

FILE_BYTES_MAX = 16 << 20
"""A module beside a task file that is larger is no source text."""
MODULES_MAX = 200


@dataclass(frozen=True, kw_only=True, eq=False)
class HandedFiles(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The text of a task file, and of modules by their dotted names; finds and loads those."""

    source: str
    modules: Mapping[str, str]
    packages: frozenset[str] = frozenset()
    """Those of the modules that hold others."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the protocol's
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        """The module of that name, if it was handed over."""
        if fullname not in self.modules:
            return None
        return importlib.machinery.ModuleSpec(
            fullname, self, origin=f"{fullname}.py", is_package=fullname in self.packages
        )

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's text."""
        code = compile(self.modules[module.__name__], f"{module.__name__}.py", "exec")
        exec(code, module.__dict__)


def gather_files(path: Path, source: str) -> HandedFiles:
    """The text of the modules beside a task file that it imports, and that these import.

    Raises:
        TaskError: There are more of them, or larger ones, than a task has.
    """
    modules: dict[str, str] = {}
    packages: set[str] = set()
    waiting = list(_imported_names(source, package=""))
    while waiting:
        name = waiting.pop()
        if name in modules or name.partition(".")[0] in sys.stdlib_module_names:
            continue
        found = _find_file(path.parent, name)
        if found is None:
            continue
        if len(modules) == MODULES_MAX:
            raise TaskError(f"{path.name}: it imports more than {MODULES_MAX} modules beside it")
        modules[name] = text = _read_module(found, path)
        is_package = found.name == "__init__.py"
        if is_package:
            packages.add(name)
        waiting += _imported_names(text, package=name if is_package else name.rpartition(".")[0])
    return HandedFiles(source=source, modules=modules, packages=frozenset(packages))


def _find_file(folder: Path, name: str) -> Path | None:
    place = folder.joinpath(*name.split("."))
    candidates = (place / "__init__.py", place.with_name(f"{place.name}.py"))
    return next((file for file in candidates if file.is_file()), None)


def _read_module(file: Path, path: Path) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise TaskError(f"{path.name}: {file.name} cannot be read: {error.strerror}") from error
    if len(data) > FILE_BYTES_MAX:
        raise TaskError(f"{path.name}: {file.name} is over {FILE_BYTES_MAX} bytes")
    return data.decode("utf-8", "replace")


def _imported_names(source: str, *, package: str) -> Iterator[str]:
    """Every module that import statements may mean, with the packages around it."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return  # told where it is run
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _resolve(node, package)
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            parts = name.strip(".").split(".")
            if all(part.isidentifier() for part in parts):
                yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _resolve(node: ast.ImportFrom, package: str) -> str:
    """The absolute name of what a `from` statement imports from."""
    if not node.level:
        return node.module or ""
    around = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*around, *([node.module] if node.module else [])])
