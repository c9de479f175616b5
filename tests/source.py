"""The package's source as parsed modules, for tests of its form."""

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "nki_agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One file of the package."""

    path: Path
    name: str
    room: str
    text: str
    tree: ast.Module

    def imports(self) -> Iterator[tuple[str, int]]:
        """Each imported name with its line: both `a` and `a.b` for `from a import b`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name, node.lineno
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module, node.lineno
                for alias in node.names:
                    yield f"{node.module}.{alias.name}", node.lineno


@functools.cache
def read_modules() -> tuple[Module, ...]:
    """Every module of the package, in order of its path; the benchmark's task files are data."""
    modules = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.is_relative_to(PACKAGE / "bench" / "tasks"):
            continue
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        text = path.read_text(encoding="utf-8")
        modules.append(
            Module(
                path=path,
                name=".".join(parts[:-1] if parts[-1] == "__init__" else parts),
                room=parts[1] if len(parts) > 2 else "",
                text=text,
                tree=ast.parse(text),
            )
        )
    return tuple(modules)
