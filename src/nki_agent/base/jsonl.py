"""Append-only JSON lines: a run resumes after a crash and loses nothing.

Law: a line is written whole with one call, then flushed; a reader skips a last line that a crash
cut off, and empty ones, which editors leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec


def append_line(path: Path, record: Any) -> None:
    """Add one record (a msgspec Struct or plain data) to the file at `path`."""
    data = msgspec.json.encode(record) + b"\n"
    with path.open("ab") as file:
        file.write(data)


def encode_lines(records: Iterable[Any]) -> bytes:
    """Records as the whole of a file."""
    return b"".join(msgspec.json.encode(record) + b"\n" for record in records)


def read_lines(path: Path) -> Iterator[Any]:
    """Yield each whole record of the file as plain data."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n") and line.strip():
                yield msgspec.json.decode(line)
