"""Verdicts by their key, in one SQLite file that several processes may use at once.

Law: the cache only saves time. A file that is no database, or damaged, is moved aside with a
warning; a verdict that cannot be stored is a warning; only `Judged` is ever in it.
"""

from __future__ import annotations

import sqlite3
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from nki_agent.base.errors import MachineError
from nki_agent.base.linefile import Warn, find_free_name
from nki_agent.verify.verdict import SCHEMA, Verdict

DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
WAIT_SECONDS: Final = 30.0
"""How long to wait for another process's write."""
TABLE: Final = f"verdicts_{SCHEMA}"
"""Named by the schema of a verdict, so that versions of this tool can share a file."""
PRIVATE: Final = ""
"""SQLite's name of a database of one connection, in memory and, when large, on disk."""
BESIDE: Final = ("-wal", "-shm")


class VerdictCache:
    """A cache file; safe to share between threads and processes."""

    def __init__(self, path: Path | None, *, warn: Warn = warnings.warn) -> None:
        """Open or create the file; None is a private cache that ends with this object.

        Raises:
            MachineError: The file cannot be opened or made.
        """
        self._path = path
        self._warn = warn
        self._lock = threading.Lock()
        self._is_full = False
        self._database = self._open()

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
        """Close the file."""
        with self._lock:
            self._database.close()

    def find(self, key: str) -> Verdict | None:
        """The verdict of this key, if there is one."""
        sentence = f"SELECT verdict FROM {TABLE} WHERE key = ?"
        with self._lock:
            try:
                row = self._database.execute(sentence, (key,)).fetchone()
            except sqlite3.DatabaseError as error:
                self._recover(error)
                return None
        with suppress(msgspec.DecodeError):
            return None if row is None else msgspec.msgpack.decode(row[0], type=Verdict)
        return None

    def put(self, key: str, verdict: Verdict) -> None:
        """Store a verdict; the first one of a key stays."""
        data = msgspec.msgpack.encode(verdict)
        sentence = f"INSERT OR IGNORE INTO {TABLE} VALUES (?, ?)"
        with self._lock:
            try:
                self._database.execute(sentence, (key, data))
            except sqlite3.DatabaseError as error:
                self._recover(error)

    def _open(self) -> sqlite3.Connection:
        try:
            return _connect(self._path)
        except sqlite3.DatabaseError as error:
            if self._path is None or not _is_damage(error):
                raise MachineError(f"cannot open the cache `{self._path}`: {error}") from error
            self._move_aside(self._path, error)
        try:
            return _connect(self._path)
        except sqlite3.DatabaseError as error:
            raise MachineError(f"cannot open the cache `{self._path}`: {error}") from error

    def _recover(self, error: sqlite3.DatabaseError) -> None:
        """Go on without what the error took: a damaged file, or the right to write."""
        if self._path is not None and _is_damage(error):
            self._database.close()
            self._move_aside(self._path, error)
            self._database = self._open()
        elif not self._is_full:
            self._is_full = True
            self._warn(f"the cache `{self._path}` cannot be used: {error}")

    def _move_aside(self, path: Path, error: sqlite3.DatabaseError) -> None:
        """Another process may have moved the same file at the same time."""
        aside = find_free_name(path, "damaged")
        with suppress(FileNotFoundError):
            path.rename(aside)
        for end in BESIDE:
            path.with_name(path.name + end).unlink(missing_ok=True)
        self._warn(f"the cache `{path}` is damaged ({error}); it was moved to `{aside}`")


def _connect(path: Path | None) -> sqlite3.Connection:
    database = sqlite3.connect(
        PRIVATE if path is None else path,
        timeout=WAIT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        # A crash of the machine may cost the last verdicts, never the file.
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute(
            f"CREATE TABLE IF NOT EXISTS {TABLE} (key TEXT PRIMARY KEY, verdict BLOB NOT NULL)"
            " WITHOUT ROWID"
        )
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGE
