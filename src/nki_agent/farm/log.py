"""The ends of a run as append-only JSON lines, from which it resumes."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from nki_agent.base.linefile import LineFile, Warn
from nki_agent.farm.job import End, Judged

SCHEMA: Final = 1


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one job ended; `key` is what was judged."""

    schema: int = SCHEMA
    id: str
    key: str
    end: End


class ResultLog:
    """A results file, open for one run at a time; what it may raise, `LineFile` says."""

    def __init__(self, path: Path, *, warn: Warn = warnings.warn) -> None:
        """Open or create the file and read what it holds."""
        self._places: dict[str, tuple[str, int]] = {}
        """Id of a judged job → its key and where its line begins."""
        self._file = LineFile(path, Line, schema=SCHEMA, note=self._note, warn=warn)

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
        self._file.close()

    def find(self, job_id: str, key: str) -> Judged | None:
        """How this job was judged, unless it was another kernel or task then."""
        known = self._places.get(job_id)
        if known is None or known[0] != key:
            return None
        end = self._file.read_at(known[1]).end
        assert isinstance(end, Judged)
        return end

    def append(self, job_id: str, key: str, end: End) -> None:
        """Write one end."""
        line = Line(id=job_id, key=key, end=end)
        self._note(line, self._file.append(line))

    def _note(self, line: Line, place: int) -> None:
        if isinstance(line.end, Judged):
            self._places[line.id] = (line.key, place)
