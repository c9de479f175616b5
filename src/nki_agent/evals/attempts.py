"""The attempts of an evaluation as append-only JSON lines, from which it resumes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from nki_agent.base.linefile import LineFile, Warn, read_records
from nki_agent.bench.attempt import SCHEMA, Attempt

Key = tuple[str, str, int]


class AttemptLog:
    """A file of attempts, open for one evaluation at a time; what it may raise, `LineFile` says."""

    def __init__(self, path: Path, *, warn: Warn = warnings.warn) -> None:
        """Open or create the file and read what it holds."""
        self._attempts: dict[Key, Attempt] = {}
        self._file = LineFile(path, Attempt, schema=SCHEMA, note=self._note, warn=warn)

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
        self._file.close()

    def has(self, key: Key) -> bool:
        """Whether the attempt was made."""
        return key in self._attempts

    def attempts(self) -> Iterator[Attempt]:
        """Every attempt, in the order in which they ended."""
        yield from self._attempts.values()

    def append(self, attempt: Attempt) -> None:
        """Write one attempt."""
        self._note(attempt, self._file.append(attempt))

    def _note(self, attempt: Attempt, place: int) -> None:
        del place
        self._attempts[attempt.key] = attempt


def read_attempts(path: Path) -> Iterator[Attempt]:
    """The whole lines of a file that may still be written; the later one of two with a key.

    Raises:
        UsageError: a line is no attempt of this version.
    """
    found: dict[Key, Attempt] = {}
    for attempt in read_records(path, Attempt, schema=SCHEMA):
        found[attempt.key] = attempt
    yield from found.values()
