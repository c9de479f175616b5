"""Which earlier runs an episode of `solve` may read.

Law: a recording is said again with the archive that it was made with, since `find_kernels` is in
the prompt only where there is one; runs made after it don't count.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nki_agent.agent.ablation import Tool
from nki_agent.agent.archive import hash_archive, read_archive
from nki_agent.base.errors import UsageError
from nki_agent.cli.inputs import printable
from nki_agent.cli.screen import say
from nki_agent.llm.recorded import CONFIG, find_run, read_config, read_recording


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveChoice:
    """A folder of runs, what is in it, and the time in ns before which they count."""

    folder: Path
    hash: str | None
    before: int | None = None


def choose_runs(archive: Path | None, runs: Path, *, model: str) -> ArchiveChoice:
    """The folder that is named, else that of a recording, else the one beside the run.

    Raises:
        UsageError: the folder that is named is not there.
    """
    if archive is not None:
        return ArchiveChoice(folder=archive, hash=_hash(archive))
    recorded = find_run(model)
    if recorded is not None:
        return _choose_of_recording(recorded, runs, model=model)
    return ArchiveChoice(folder=runs, hash=_hash(runs) if runs.is_dir() else None)


def _choose_of_recording(run: Path, runs: Path, *, model: str) -> ArchiveChoice:
    config = read_config(model)
    named = config.get("archive")
    folder = Path(named) if isinstance(named, str) else runs
    if "archive_hash" in config:
        has_archive, wanted = config["archive_hash"] is not None, config["archive_hash"]
    else:
        has_archive, wanted = _offers_kernels(Path(model.partition("/")[2])), None
    if not has_archive:
        return ArchiveChoice(folder=folder, hash=None)
    before = config.get("archive_before") or _find_time(run)
    try:
        found = _hash(folder, before=before)
    except UsageError:
        found = None
    if wanted is None or found != wanted:
        say(
            f"note: the archive of the recording, {printable(folder)}, is not as it was:"
            " `find_kernels` may answer differently"
        )
    return ArchiveChoice(folder=folder, hash=found, before=before)


def _find_time(run: Path) -> int | None:
    """When a run began: its config is the first that it writes."""
    try:
        return (run / CONFIG).stat().st_mtime_ns
    except OSError:
        return None


def _offers_kernels(path: Path) -> bool:
    """Whether the prompt of a recording without a config names the tool."""
    first = read_recording(path)[0]
    return any(f"`{Tool.FIND.value}`" in message.content for message in first.sent)


def _hash(folder: Path, *, before: int | None = None) -> str | None:
    kept = read_archive(folder, before=before)
    return hash_archive(kept) if kept else None
