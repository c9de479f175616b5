"""Imports a suite: reads its drafts, fits each, writes a folder of tasks.

Law: what is finished is written at once, a line of a journal for each task, so that an import that
was stopped goes on where it was. `suite.toml` is written last and whole. A folder that holds
anything else is refused, never written over.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from nki_agent import __version__
from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_text
from nki_agent.base.jsonl import append_line, read_lines
from nki_agent.base.writing import NewFolder, new_folder, write_whole
from nki_agent.bench.importers.draft import Draft
from nki_agent.bench.importers.fitting import LIMIT_ELEMS, Fitted, fit
from nki_agent.bench.importers.foreign import Foreign
from nki_agent.bench.importers.formats import Format, find_format, read_drafts
from nki_agent.bench.importers.listing import Listing, read_listing
from nki_agent.bench.importers.toml import write_toml
from nki_agent.bench.suite import (
    SUITE_FILE,
    Source,
    Status,
    SuiteRecord,
    TaskRow,
    read_record,
)

JOURNAL: Final = "import.jsonl"
TASKS: Final = "tasks"
OTHER_FOLDER: Final = "name another folder with `--out`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What an import is asked for."""

    form: str
    path: Path
    out: Path
    limit_elems: int = LIMIT_ELEMS
    allow_unsandboxed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One task is done, of so many."""

    number: int
    total: int
    row: TaskRow
    is_new: bool
    """False where an earlier import had done it."""


def import_suite(wish: Wish, *, tell: Callable[[Step], None]) -> SuiteRecord:
    """Import, or go on with an import; `tell` hears of each task.

    Raises:
        UsageError: there is nothing to import, or the folder is taken; nothing is left then.
    """
    listing = read_listing(wish.path)
    form = find_format(wish.form, listing)
    source = Source(
        name=clean(listing.name),
        format=form.value,
        source_sha256=listing.hash,
        limit_elems=wish.limit_elems,
        tool_version=__version__,
    )
    if (wish.out / SUITE_FILE).exists():
        return _repeat(wish.out, source)
    with Foreign(allow_unsandboxed=wish.allow_unsandboxed) as foreign:
        drafts = list(_make_unique([*read_drafts(listing, form, foreign), *_unread(listing, form)]))
        if not drafts:
            raise UsageError(
                f"`{wish.path}` holds no task in the format {form.value}",
                hint="name another format, or `auto`",
            )
        with _open_folder(wish.out) as folder:
            done = _open_journal(wish.out, source)
            rows = []
            for number, draft in enumerate(drafts, 1):
                row = done.get(draft.id)
                if row is None:
                    row = _make_row(draft, source, wish.out, foreign)
                    append_line(wish.out / JOURNAL, row)
                # From here on the same command goes on where this one was stopped.
                folder.is_kept = True
                rows.append(row)
                tell(Step(number=number, total=len(drafts), row=row, is_new=draft.id not in done))
            record = SuiteRecord(source=source, task=tuple(rows))
            write_whole(wish.out / SUITE_FILE, write_toml(record).encode())
            (wish.out / JOURNAL).unlink()
    return record


def _repeat(out: Path, source: Source) -> SuiteRecord:
    """The suite is there: its record, if it is the same one."""
    record = read_record(out)
    if record.source != source:
        raise UsageError(f"`{out}` holds another suite", hint=OTHER_FOLDER)
    return record


@contextmanager
def _open_folder(out: Path) -> Iterator[NewFolder]:
    """The folder of a new import, or of one that goes on; a failed new one leaves nothing."""
    if (out / JOURNAL).is_file():
        folder = NewFolder(out)
        folder.is_kept = True
        yield folder
        return
    with new_folder(out, hint=OTHER_FOLDER) as folder:
        yield folder


def _open_journal(out: Path, source: Source) -> dict[str, TaskRow]:
    """The rows of an import that was stopped; the journal begins with what was asked for."""
    journal = out / JOURNAL
    if not journal.exists():
        append_line(journal, source)
        (out / TASKS).mkdir()
        return {}
    _drop_torn_line(journal)
    (out / TASKS).mkdir(exist_ok=True)
    try:
        lines = list(read_lines(journal))
        if not lines:
            append_line(journal, source)
            return {}
        if msgspec.convert(lines[0], Source) != source:
            raise UsageError(f"`{out}` holds an import of another suite", hint=OTHER_FOLDER)
        rows = [msgspec.convert(line, TaskRow) for line in lines[1:]]
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"`{journal}` cannot be read: {error}", hint=OTHER_FOLDER) from error
    return {row.id: row for row in rows if _is_kept(out, row)}


def _drop_torn_line(journal: Path) -> None:
    """Cut off what a crash left unfinished, so that the next line starts at a line's start."""
    data = journal.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(journal, whole)


def _is_kept(out: Path, row: TaskRow) -> bool:
    if not row.file:
        return True
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return hash_text((out / row.file).read_text(encoding="utf-8")) == row.sha256
    return False


def _unread(listing: Listing, form: Format) -> Iterator[Draft]:
    """Files that the format might have wanted and that could not be read."""
    suffixes = _SUFFIXES[form]
    for path, problem in listing.problems.items():
        if path.endswith(suffixes) or "." not in path:
            yield Draft(id=Path(path).stem, origin=path, problem=problem)


_SUFFIXES: Final = {
    Format.KERNELBENCH: (".py",),
    Format.ACCELOPT: (".py", ".json"),
    Format.NKI_AGENT: (".py", ".json", ".jsonl"),
    Format.FLASHINFER: (".json", ".jsonl"),
    Format.BACKENDBENCH: (".txt",),
}


def _make_unique(drafts: Iterable[Draft]) -> Iterator[Draft]:
    """The same drafts with ids that differ: later ones get a number."""
    used: set[str] = set()
    for draft in drafts:
        task_id, number = draft.id, 1
        while task_id in used:
            number += 1
            task_id = f"{draft.id}-{number}"
        used.add(task_id)
        if number > 1:
            note = f"the id `{draft.id}` was taken by another task of the suite"
            yield replace(draft, id=task_id, notes=(*draft.notes, note))
        else:
            yield draft


def _make_row(draft: Draft, source: Source, out: Path, foreign: Foreign) -> TaskRow:
    fitted = fit(draft, foreign, limit_elems=source.limit_elems)
    file, digest = "", ""
    if fitted.text:
        file = f"{TASKS}/{draft.id}.py"
        text = _write_head(draft, source, fitted) + fitted.text
        digest = hash_text(text)
        write_whole(out / file, text.encode())
    return TaskRow(
        id=draft.id,
        file=file,
        sha256=digest,
        origin=clean(draft.origin),
        level=draft.level,
        category=clean(draft.category),
        status=Status.FIT if fitted.is_fit else Status.UNFIT,
        reasons=_tidy(fitted.reasons),
        changes=_tidy(fitted.changes),
        notes=_tidy(fitted.notes),
    )


def _tidy(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple("; ".join(clean(line.strip()) for line in t.splitlines()) for t in texts)


def _write_head(draft: Draft, source: Source, fitted: Fitted) -> str:
    """Comments, so that a docstring or `from __future__` of the file stays where it must."""
    lines = [f"Imported from {source.name} ({source.format}), {draft.origin}.", *fitted.changes]
    return "".join(f"# {clean(line)}\n" for line in lines) + "\n"
