"""A kernel as untrusted source text: its main file and the helper modules beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_files

MAIN_NAME = "kernel.py"
SOURCE_BYTES_MAX = 2 * 2**20
"""A larger source file is refused before it is read."""


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
            for name in _imported_names(files[pending.pop()]):
                beside = path.parent / f"{name}.py"
                if beside.name not in files and beside.is_file():
                    files[beside.name] = read_source(beside)
                    pending.append(beside.name)
        return cls(files, main)


def read_source(path: Path) -> str:
    """Text of a source file; UsageError that says why it cannot be read."""
    try:
        if path.stat().st_size > SOURCE_BYTES_MAX:
            raise UsageError(f"`{path}` is larger than {SOURCE_BYTES_MAX} bytes")
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise UsageError(f"no file `{path}`", hint="check the path") from error
    except IsADirectoryError as error:
        raise UsageError(f"`{path}` is a folder", hint="name a Python file") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"`{path}` is not UTF-8 text", hint="name a Python file") from error
    except OSError as error:
        raise UsageError(f"cannot read `{path}`: {error.strerror}") from error


def _imported_names(source: str) -> set[str]:
    """Top-level module names that a source's import lines may name; a superset is harmless."""
    names = set()
    for line in source.splitlines():
        words = line.replace(",", " ").split()
        if words[:1] == ["from"] and len(words) > 1:
            names.add(words[1].split(".")[0])
        elif words[:1] == ["import"]:
            names.update(w.split(".")[0] for w in words[1:])
    return {n for n in names if n.isidentifier() and n not in ("nki", "numpy")}
