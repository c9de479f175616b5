"""A file of records, one JSON line each, that one run writes at a time and resumes from.

Law: a line is written whole or not at all; after a full disk the file is as it was before. What a
crash left of a last line is moved into a file of its own. A line is handed to the operating system
at once, so a killed process loses nothing; the disk itself is only told when the file is closed.
The first field of a record is its `schema`. Empty lines, which editors leave, are skipped.
"""

from __future__ import annotations

import fcntl
import os
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

import msgspec

from nki_agent.base.errors import MachineError, UsageError
from nki_agent.base.writing import path_error

Warn = Callable[[str], object]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a line that every version has."""

    schema: int


R = TypeVar("R", bound=msgspec.Struct)

BEGIN: Final = b'{"schema":'
"""How every line begins, whatever its version."""


class LineFile(Generic[R]):
    """A file of records, open for one run at a time; close it or use `with`."""

    def __init__(
        self,
        path: Path,
        record: type[R],
        *,
        schema: int,
        note: Callable[[R, int], None],
        warn: Warn = warnings.warn,
    ) -> None:
        """Open or create the file, and give each record that it holds to `note` with its place.

        Raises:
            UsageError: It is no such file and can't be made there, has another schema, or another
                run writes to it.
            MachineError: The disk is full or fails.
        """
        self._path = path
        self._schema = schema
        self._decoder = msgspec.json.Decoder(record)
        self._note = note
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        except IsADirectoryError as error:
            raise UsageError(f"the results file `{path}` is a folder") from error
        except OSError as error:
            raise path_error(f"open `{path}`", error) from error
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

    def append(self, record: R) -> int:
        """Write one record; the place where it begins.

        Raises:
            MachineError: The disk is full or fails; the file is as it was.
        """
        data = msgspec.json.encode(record) + b"\n"
        place = self._size
        try:
            _write_at(self._file, data, place)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, place)
            raise MachineError(f"cannot write to `{self._path}`: {error.strerror}") from error
        self._size += len(data)
        return place

    def read_at(self, place: int) -> R:
        """The record that begins at a place."""
        with open(self._file, "rb", closefd=False) as file:
            file.seek(place)
            return self._decoder.decode(file.readline())

    def _lock(self) -> None:
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise UsageError(f"the results file `{self._path}` is no regular file")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another run writes to `{self._path}`",
                hint="wait for its end, or name another file",
            ) from error

    def _read(self, warn: Warn) -> int:
        """Note every record; the size up to the last whole line."""
        size = 0
        with open(self._file, "rb", closefd=False) as file:
            for number, data in enumerate(file, start=1):
                whole = data.endswith(b"\n")
                if not data.strip():
                    size += len(data) if whole else 0
                    continue
                if not whole and not self._is_line(data):
                    self._move_torn(data, size, number, warn)
                    return size
                self._note(self._decode(data, number), size)
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

    def _decode(self, data: bytes, number: int) -> R:
        return _decode(data, self._decoder, schema=self._schema, place=(self._path, number))

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
            raise path_error(f"put `{self._path}` right", error) from error
        warn(f"the last line of `{self._path}` was cut off; it was moved to `{aside}`")

    def _repair(self, size: int) -> None:
        """End a last line that lacks nothing but its end."""
        try:
            _write_at(self._file, b"\n", size)
        except OSError as error:
            raise path_error(f"put `{self._path}` right", error) from error


def read_records(path: Path, record: type[R], *, schema: int) -> Iterator[R]:
    """The whole records of a file that another run may be writing; a missing file has none.

    Raises:
        UsageError: It cannot be read, or a line is no such record or has another schema.
        MachineError: The disk fails.
    """
    decoder = msgspec.json.Decoder(record)
    try:
        with path.open("rb") as file:
            for number, data in enumerate(file, start=1):
                if data.endswith(b"\n") and data.strip():
                    yield _decode(data, decoder, schema=schema, place=(path, number))
    except FileNotFoundError:
        return
    except OSError as error:
        raise path_error(f"read `{path}`", error) from error


def _decode(
    data: bytes, decoder: msgspec.json.Decoder[R], *, schema: int, place: tuple[Path, int]
) -> R:
    try:
        if msgspec.json.decode(data, type=Record).schema == schema:
            return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    path, number = place
    raise UsageError(
        f"line {number} of `{path}` is no result{_find_schema(data, schema)}",
        hint="take the line out: what it told is then made again; or name another file",
    )


def _find_schema(data: bytes, schema: int) -> str:
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
        found = msgspec.json.decode(data, type=Record).schema
        return "" if found == schema else f" of schema {schema}: it has schema {found}"
    return ""


def _write_at(file: int, data: bytes, place: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, place)
        view, place = view[written:], place + written


def find_free_name(path: Path, word: str) -> Path:
    """A name beside `path` that nothing has: `results.jsonl.torn-1`."""
    number = 1
    while (found := path.with_name(f"{path.name}.{word}-{number}")).exists():
        number += 1
    return found
