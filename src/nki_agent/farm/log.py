"""The ends of a run as append-only JSON lines, from which it resumes.

Law: a line is written whole or not at all; after a full disk the file is as it was before. What a
crash left of a last line is moved into a file of its own. A line is handed to the operating system
at once, so a killed process loses nothing; the disk itself is only told when the log is closed.
"""

from __future__ import annotations

import fcntl
import os
import stat
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from nki_agent.base.errors import MachineError, UsageError
from nki_agent.farm.cache import find_free_name
from nki_agent.farm.job import End, Judged

SCHEMA: Final = 1

Warn = Callable[[str], object]


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one job ended; `key` is what was judged."""

    schema: int = SCHEMA
    id: str
    key: str
    end: End


class _Schema(msgspec.Struct, frozen=True):
    """The part of a line that every version has."""

    schema: int


BEGIN: Final = b'{"schema":'
"""How every line begins, whatever its version."""


class ResultLog:
    """A results file, open for one run at a time."""

    def __init__(self, path: Path, *, warn: Warn = warnings.warn) -> None:
        """Open or create the file and read what it holds.

        Raises:
            UsageError: It is no file of results, has another schema, or another run writes to it.
            MachineError: It cannot be opened or put right.
        """
        self._path = path
        self._places: dict[str, tuple[str, int]] = {}
        """Id of a judged job → its key and where its line begins."""
        self._decoder = msgspec.json.Decoder(Line)
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        except IsADirectoryError as error:
            raise UsageError(f"the results file `{path}` is a folder") from error
        except OSError as error:
            raise MachineError(f"cannot open `{path}`: {error.strerror}") from error
        try:
            self._lock()
            self._size = self._read(warn)
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        """Itself, ready."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Put all on the disk and close the file."""
        if self._file >= 0:
            with suppress(OSError):
                os.fsync(self._file)
            os.close(self._file)
            self._file = -1

    def find(self, job_id: str, key: str) -> Judged | None:
        """How this job was judged, unless it was another kernel or task then."""
        known = self._places.get(job_id)
        if known is None or known[0] != key:
            return None
        end = self._decoder.decode(self._line_at(known[1])).end
        assert isinstance(end, Judged)
        return end

    def append(self, job_id: str, key: str, end: End) -> None:
        """Write one end.

        Raises:
            MachineError: The disk is full or fails; the file is as it was.
        """
        data = msgspec.json.encode(Line(id=job_id, key=key, end=end)) + b"\n"
        try:
            _write_at(self._file, data, self._size)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise MachineError(f"cannot write to `{self._path}`: {error.strerror}") from error
        if isinstance(end, Judged):
            self._places[job_id] = (key, self._size)
        self._size += len(data)

    def _lock(self) -> None:
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise UsageError(f"the results file `{self._path}` is no regular file")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another run writes to `{self._path}`", hint="name another results file"
            ) from error

    def _read(self, warn: Warn) -> int:
        """Note every judged job; the size up to the last whole line."""
        size = 0
        with open(self._file, "rb", closefd=False) as file:
            for number, data in enumerate(file, start=1):
                whole = data.endswith(b"\n")
                if not whole and not self._is_line(data):
                    self._move_torn(data, size, number, warn)
                    return size
                line = self._decode(data, number)
                if isinstance(line.end, Judged):
                    self._places[line.id] = (line.key, size)
                if not whole:
                    self._repair(size + len(data))
                    return size + len(data) + 1
                size += len(data)
        return size

    def _is_line(self, data: bytes) -> bool:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            self._decoder.decode(data)
            return True
        return False

    def _decode(self, data: bytes, number: int) -> Line:
        try:
            line = self._decoder.decode(data)
            if line.schema == SCHEMA:
                return line
        except (msgspec.MsgspecError, UnicodeDecodeError):
            pass
        raise UsageError(
            f"line {number} of `{self._path}` is no result{_find_schema(data)}",
            hint="name another results file",
        )

    def _move_torn(self, data: bytes, size: int, number: int, warn: Warn) -> None:
        """A last line that a crash cut off, or that a power failure left as zeros."""
        content = data.strip(b"\0")
        if not content.startswith(BEGIN[: len(content)]):
            self._decode(data, number)
        aside = find_free_name(self._path, "torn")
        try:
            aside.write_bytes(data)
            os.ftruncate(self._file, size)
        except OSError as error:
            raise MachineError(f"cannot put `{self._path}` right: {error.strerror}") from error
        warn(f"the last line of `{self._path}` was cut off; it was moved to `{aside}`")

    def _repair(self, size: int) -> None:
        """End a last line that lacks nothing but its end."""
        try:
            _write_at(self._file, b"\n", size)
        except OSError as error:
            raise MachineError(f"cannot put `{self._path}` right: {error.strerror}") from error

    def _line_at(self, place: int) -> bytes:
        with open(self._file, "rb", closefd=False) as file:
            file.seek(place)
            return file.readline()


def _find_schema(data: bytes) -> str:
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
        found = msgspec.json.decode(data, type=_Schema).schema
        return "" if found == SCHEMA else f" of schema {SCHEMA}: it has schema {found}"
    return ""


def _write_at(file: int, data: bytes, place: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, place)
        view, place = view[written:], place + written
