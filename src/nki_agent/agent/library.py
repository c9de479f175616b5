"""A user's own copy of documentation, indexed for `look_up`: sqlite FTS5 and a table of symbols.

Law: an index is written whole or not at all, and only read afterwards; what is found says which
file and section it is from. None of that text is part of this package. Text of a checkout is
foreign: it is cleaned and bounded before a model reads it, and its files are never run.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from nki_agent.agent.words import find_words
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_bytes, short_hash

SUFFIXES = frozenset({".rst", ".md", ".txt"})
FILE_BYTES_MAX = 2 * 2**20
FILES_MAX = 20_000
PASSAGE_CHARACTERS_MAX = 1_600
"""A passage ends at a paragraph before this; a longer paragraph is cut at a line."""
TITLE_WEIGHT = 6.0
WORDS_MAX = 24
"""Words of a query that count; more is not a question."""
UNDERLINE_MIN = 3
SCHEMA = 1
_UNDERLINE = re.compile(r"^([=\-~^\"'*+#.:_])\1{2,}\s*$")
_MARKDOWN = re.compile(r"^#{1,6}\s+(\S.*?)\s*#*$")
_FENCE = re.compile(r"^\s*```")
_SYMBOL = re.compile(r"\b(?:nki|neuronxcc|nisa|nl|ncc|nt)(?:\.[A-Za-z_]\w*)+")
_TOKEN = re.compile(r"[\w.]+")
_TABLES = """
CREATE TABLE about (schema INTEGER, folder TEXT, digest TEXT, files INTEGER);
CREATE VIRTUAL TABLE passages USING fts5(
    title, body, parts, file UNINDEXED, tokenize = "unicode61 tokenchars '._'"
);
CREATE TABLE symbols (symbol TEXT, passage INTEGER, in_title INTEGER);
"""
_BY_SYMBOL = """
SELECT p.rowid, p.title, p.body, p.file FROM symbols s JOIN passages p ON p.rowid = s.passage
WHERE s.symbol = ? GROUP BY p.rowid ORDER BY MAX(s.in_title) DESC, p.rowid LIMIT ?
"""
_BY_WORDS = """
SELECT rowid, title, body, file FROM passages WHERE passages MATCH ?
ORDER BY bm25(passages, ?, 1.0, 1.0), rowid LIMIT ?
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A piece of one section of one file."""

    file: str
    title: str
    text: str

    def __str__(self) -> str:
        """The source, then the text."""
        return f"From the indexed documentation, {self.file}, “{self.title}”:\n{self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """What an index holds."""

    folder: str
    files: int
    passages: int
    skipped: tuple[str, ...] = ()
    """Files that were left out: too large, or unreadable."""


@dataclass(frozen=True, slots=True)
class Library:
    """An index that is there."""

    path: Path

    @property
    def hash(self) -> str:
        """Short hash of what was indexed: part of a run's config, since it changes answers."""
        with closing(_open(self.path)) as base:
            (digest,) = base.execute("SELECT digest FROM about").fetchone()
        return short_hash(digest)

    def describe(self) -> Indexed:
        """What it holds."""
        with closing(_open(self.path)) as base:
            folder, files = base.execute("SELECT folder, files FROM about").fetchone()
            (passages,) = base.execute("SELECT count(*) FROM passages").fetchone()
        return Indexed(folder=folder, files=files, passages=passages)

    def search(self, query: str, *, limit: int) -> tuple[Passage, ...]:
        """Passages with this symbol, those that name it in the title first, else with its words."""
        with closing(_open(self.path)) as base:
            symbol = query.strip().strip("`").removesuffix("()").rpartition(".")[2].lower()
            rows = base.execute(_BY_SYMBOL, (symbol, limit)).fetchall()
            words = _write_match(query)
            if len(rows) < limit and words:
                known = {row[0] for row in rows}
                found = base.execute(_BY_WORDS, (words, TITLE_WEIGHT, limit + len(rows)))
                rows += [row for row in found if row[0] not in known]
        return tuple(Passage(file=file, title=t, text=b) for _, t, b, file in rows[:limit])


def index_path() -> Path:
    """Where the index of this user is: in the folder for caches."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "nki-agent" / "docs.sqlite"


def find_library(path: Path | None = None) -> Library | None:
    """The user's index, if one was made by this version.

    Raises:
        UsageError: there is a file that is no index of ours.
    """
    path = index_path() if path is None else path
    if not path.exists():
        return None
    hint = "make it anew with `nki-agent docs index DIR`"
    try:
        with closing(_open(path)) as base:
            (schema,) = base.execute("SELECT schema FROM about").fetchone()
    except (sqlite3.Error, TypeError, ValueError) as error:
        raise UsageError(f"`{path}` is no index of documentation", hint=hint) from error
    if schema != SCHEMA:
        raise UsageError(f"`{path}` is an index of another version", hint=hint)
    return Library(path)


def hash_docs() -> str:
    """Short hash of the user's index; empty where there is none."""
    library = find_library()
    return "" if library is None else library.hash


def index_folder(folder: Path, path: Path) -> Indexed:
    """Index the .rst, .md and .txt files below a folder, in the place of an index at `path`.

    Raises:
        UsageError: the folder has no such file, or the index cannot be written.
    """
    files = list(_find_files(folder))
    if not files:
        raise UsageError(
            f"no documentation in `{folder}`", hint=f"looked for {', '.join(sorted(SUFFIXES))}"
        )
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(part)) as base:
            found = _fill(base, folder, files)
        part.replace(path)
    except (OSError, sqlite3.OperationalError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot write the index `{path}`: {reason}") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return found


def split_sections(text: str) -> Iterator[tuple[str, str]]:
    r"""Title and text of each section of reStructuredText or Markdown; "" before the first.

    >>> list(split_sections("Intro\n\nTiles\n=====\nText.\n\n# More\nEnd."))
    [('', 'Intro'), ('Tiles', 'Text.'), ('More', 'End.')]
    """
    title, lines, fenced = "", list[str](), False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        heading = None if fenced else _MARKDOWN.match(line)
        underlined = not fenced and _UNDERLINE.match(line) is not None
        if heading is not None:
            yield title, _join(lines)
            title, lines = heading[1], []
        elif underlined and lines and lines[-1].strip():
            new = lines.pop().strip()
            yield title, _join(lines)
            title, lines = new, []
        elif not underlined:
            lines.append(line)
    yield title, _join(lines)


def split_passages(text: str) -> Iterator[str]:
    """Pieces of a section, each short enough for an answer."""
    piece = ""
    for paragraph in re.split(r"\n\s*\n", text):
        for part in _split_long(paragraph):
            if piece and len(piece) + len(part) > PASSAGE_CHARACTERS_MAX:
                yield piece
                piece = ""
            piece = f"{piece}\n{part}" if piece else part
    if piece.strip():
        yield piece


def _split_long(paragraph: str) -> Iterator[str]:
    part = ""
    for line in paragraph.splitlines():
        kept = line[:PASSAGE_CHARACTERS_MAX]
        if part and len(part) + len(kept) > PASSAGE_CHARACTERS_MAX:
            yield part
            part = ""
        part = f"{part}\n{kept}" if part else kept
    if part:
        yield part


def _join(lines: Sequence[str]) -> str:
    return "\n".join(lines).strip()


def _find_files(folder: Path) -> Iterator[Path]:
    """Files below a folder in a fixed order; links are not followed, hidden folders left out."""
    count = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = Path(place, name)
            if file.suffix.lower() in SUFFIXES and not file.is_symlink() and file.is_file():
                count += 1
                if count > FILES_MAX:
                    raise UsageError(f"`{folder}` has more than {FILES_MAX} files to index")
                yield file


def _fill(base: sqlite3.Connection, folder: Path, files: Iterable[Path]) -> Indexed:
    base.executescript(_TABLES)
    skipped: list[str] = []
    digests: list[str] = []
    count = 0
    for file in files:
        name = _clean(str(file.relative_to(folder)).encode("utf-8", "replace").decode())
        try:
            data = file.read_bytes() if file.stat().st_size <= FILE_BYTES_MAX else None
        except OSError:
            data = None
        if data is None:
            skipped.append(name)
            continue
        digests.append(f"{name} {hash_bytes(data)}")
        count += _add_file(base, name, data.decode("utf-8", "replace"))
    about = (SCHEMA, str(folder), hash_bytes("\n".join(digests).encode()), len(digests))
    base.execute("INSERT INTO about VALUES (?, ?, ?, ?)", about)
    base.execute("CREATE INDEX by_symbol ON symbols (symbol)")
    base.commit()
    return Indexed(folder=str(folder), files=len(digests), passages=count, skipped=tuple(skipped))


def _add_file(base: sqlite3.Connection, name: str, text: str) -> int:
    count = 0
    # reStructuredText writes tensor\_copy where it does not want a link.
    for title, section in split_sections(_clean(text).replace("\\_", "_")):
        for passage in split_passages(section):
            # A name is also found by its parts: tensor_copy by `tensor` and by `copy`.
            parts = " ".join(sorted(find_words(f"{title} {passage}")))
            cursor = base.execute(
                "INSERT INTO passages VALUES (?, ?, ?, ?)", (title or name, passage, parts, name)
            )
            count += 1
            rows = {(symbol, 1) for symbol in _find_symbols(title)}
            rows |= {(symbol, 0) for symbol in _find_symbols(passage)}
            base.executemany(
                "INSERT INTO symbols VALUES (?, ?, ?)",
                [(symbol, cursor.lastrowid, where) for symbol, where in sorted(rows)],
            )
    return count


def _find_symbols(text: str) -> set[str]:
    return {symbol.rpartition(".")[2].lower() for symbol in _SYMBOL.findall(text)}


def _write_match(query: str) -> str:
    """Any of the words, each quoted, so that nothing in it is FTS5's own language."""
    words = {word.strip("._") for word in _TOKEN.findall(query.lower())} | find_words(query)
    return " OR ".join(f'"{word}"' for word in sorted(words)[:WORDS_MAX] if word)


def _clean(text: str) -> str:
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
