"""Builds the corpus: draw, filter, drop duplicates and benchmark tasks, choose, split, write.

Law: the same wish gives the same bytes, on any number of workers, in one go or with stops. What is
looked at is written down at once, so that a build that was stopped goes on where it was; the
corpus itself appears when all of it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from nki_agent.base.errors import MachineError, UsageError
from nki_agent.base.hashes import hash_bytes, hash_files, hash_text
from nki_agent.base.jsonl import encode_lines
from nki_agent.base.linefile import LineFile
from nki_agent.base.writing import new_folder
from nki_agent.corpus.candidate import Passed
from nki_agent.corpus.canonical import Graph
from nki_agent.corpus.card import write_card
from nki_agent.corpus.distances import summarise_distances
from nki_agent.corpus.draw import plan_candidates
from nki_agent.corpus.duplicates import Entry, drop_duplicates, reject
from nki_agent.corpus.fingerprint import Fingerprint
from nki_agent.corpus.freeze import Frozen, Recipe, find_difference, freeze, read_frozen
from nki_agent.corpus.grammar import Grammar, read_grammar
from nki_agent.corpus.known import read_folder, read_own
from nki_agent.corpus.leaks import Leaks
from nki_agent.corpus.looked import ENTRY, SCHEMA, Looked, Order
from nki_agent.corpus.page import write_stats_page
from nki_agent.corpus.quotas import choose
from nki_agent.corpus.record import CorpusTask, Origin, Reason, Rejection
from nki_agent.corpus.release import (
    CARD,
    MANIFEST,
    PAGE,
    REJECTED,
    TASKS,
    has_parquet,
    make_data_files,
    root_of,
    write_files,
    write_manifest,
)
from nki_agent.corpus.splits import Placed, assign_splits
from nki_agent.corpus.stats import Stats, count_tasks
from nki_agent.corpus.workers import Crew, Failure
from nki_agent.corpus.written import PATTERN as WRITTEN
from nki_agent.corpus.written import look_at_written

CANDIDATES: Final = 10_800
"""What gives `TASKS_WANTED` with some to choose from."""
TASKS_WANTED: Final = 6_000
ROOT: Final = 0
SECONDS: Final = 120.0
"""For one candidate."""
JOURNAL: Final = ".build-"
OTHER_FOLDER: Final = "name another folder with `--out`"
_REASONS: Final = tuple(Reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a build is asked for."""

    out: Path
    candidates: int = CANDIDATES
    tasks: int = TASKS_WANTED
    root: int = ROOT
    grammar: Path | None = None
    against: tuple[Path, ...] = ()
    written: Path | None = None
    workers: int = 1
    goes_on: bool = False
    """Whether a build that was stopped goes on."""
    allow_unsandboxed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How far the looking is."""

    done: int
    total: int
    passed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a build made."""

    stats: Stats
    root_sha256: str
    frozen: Frozen
    """Its own list."""
    difference: str | None
    """From the list of the package: empty where it is the same, None where another was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Who hears of progress."""

    step: Callable[[Step], None]
    tell: Callable[[str], None]


def build(wish: Wish, listener: Listener) -> Built:
    """Build a corpus, or go on with one that was stopped.

    Raises:
        UsageError: a grammar, folder or file that cannot be used; the output folder is taken.
        MachineError: the disk is full or fails; what was looked at is kept.
    """
    _require_free(wish)
    grammar = read_grammar(wish.grammar)
    leaks, against = _read_known(wish, listener.tell)
    recipe = Recipe(
        root=wish.root,
        candidates=wish.candidates,
        tasks=wish.tasks,
        grammar_sha256=hash_grammar(grammar),
        against=against,
        written_sha256=hash_bytes(wish.written.read_bytes()) if wish.written is not None else "",
    )
    journal = wish.out / f"{JOURNAL}{hash_bytes(msgspec.json.encode(recipe))[:12]}.jsonl"
    with _open_folder(wish.out, journal):
        looked = _look_at_all(wish, grammar, journal, listener)
        if wish.written is not None:
            looked += look_at_written(
                wish.written, tell=listener.tell, allow_unsandboxed=wish.allow_unsandboxed
            )
        built = _publish(wish, looked, leaks, recipe)
        journal.unlink()
    return built


def hash_grammar(grammar: Grammar) -> str:
    """Of all that is drawn from, whatever file it stands in."""
    return hash_bytes(msgspec.json.encode(grammar, order="deterministic"))


def _read_known(wish: Wish, tell: Callable[[str], None]) -> tuple[Leaks, tuple[str, ...]]:
    known = list(read_own())
    hashes = []
    for path in wish.against:
        found = read_folder(path, tell=tell, allow_unsandboxed=wish.allow_unsandboxed)
        tell(f"{path}: {len(found)} tasks are kept out")
        known += found
        hashes.append(hash_files({task.id: task.source for task in found}))
    return Leaks(tuple(known)), tuple(hashes)


def _require_free(wish: Wish) -> None:
    """Refuse a folder that is taken before anything is looked at."""
    if (wish.out / MANIFEST).exists():
        raise UsageError(f"`{wish.out}` holds a corpus already", hint=OTHER_FOLDER)
    if not wish.goes_on and any(wish.out.glob(f"{JOURNAL}*")):
        hint = f"`--resume` goes on with it, or {OTHER_FOLDER}"
        raise UsageError(f"`{wish.out}` holds a build that was stopped", hint=hint)


@contextmanager
def _open_folder(out: Path, journal: Path) -> Iterator[None]:
    """The output folder: new or empty, or that of the same build."""
    if journal.exists():
        yield
        return
    if any(out.glob(f"{JOURNAL}*")):
        hint = f"ask for the same candidates, tasks, seed, grammar and folders, or {OTHER_FOLDER}"
        raise UsageError(f"`{out}` holds a build of something else", hint=hint)
    with new_folder(out, hint=OTHER_FOLDER) as folder:
        # What was looked at when it fails is what the next one goes on with.
        folder.is_kept = True
        yield


def _look_at_all(wish: Wish, grammar: Grammar, journal: Path, listener: Listener) -> list[Looked]:
    """What became of each candidate, in the order of the plan."""
    plan = list(plan_candidates(grammar, number=wish.candidates))
    known: dict[tuple[str, int], Looked] = {}
    passed = 0

    def note(looked: Looked, _: int = 0) -> None:
        nonlocal passed
        known[looked.pattern, looked.index] = looked
        passed += looked.passed is not None

    with LineFile(journal, Looked, schema=SCHEMA, note=note, warn=listener.tell) as file:
        left = [place for place in plan if place not in known]
        orders = (
            msgspec.msgpack.encode(
                Order(
                    grammar="" if wish.grammar is None else str(wish.grammar.resolve()),
                    root=wish.root,
                    pattern=pattern,
                    index=index,
                )
            )
            for pattern, index in left
        )
        with closing(_work(orders, workers=wish.workers)) as answers:
            for place, answer in zip(left, answers, strict=True):
                looked = _read_answer(place, answer)
                file.append(looked)
                note(looked)
                listener.step(Step(done=len(known), total=len(plan), passed=passed))
    return [known[place] for place in plan]


def _work(orders: Iterator[bytes], *, workers: int) -> Generator[bytes | Failure, None, None]:
    """One worker is this process."""
    if workers > 1:
        yield from Crew(entry=ENTRY, workers=workers, seconds=SECONDS).work(orders)
    else:
        from nki_agent.corpus.looking import make_looker  # noqa: PLC0415 - PyTorch is heavy

        yield from map(make_looker(), orders)


def _read_answer(place: tuple[str, int], answer: bytes | Failure) -> Looked:
    if isinstance(answer, bytes):
        return msgspec.msgpack.decode(answer, type=Looked)
    raise MachineError(f"candidate {place[1]} of the pattern `{place[0]}` was lost: {answer}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A candidate that passed, with what is known of it."""

    passed: Passed
    print: Fingerprint

    @property
    def id(self) -> str:
        return self.passed.candidate.id

    @property
    def graph(self) -> Graph:
        assert self.print.graph is not None
        return self.print.graph

    @property
    def entry(self) -> Entry:
        candidate = self.passed.candidate
        return Entry(
            id=candidate.id,
            sha256=hash_text(candidate.source),
            family=candidate.family,
            pattern=candidate.pattern,
            print=self.print,
        )


def select(
    looked: Iterable[Looked], leaks: Leaks, *, root: int, tasks: int
) -> tuple[list[Passed], list[Rejection]]:
    """The tasks that come in, and a row for each that does not."""
    found: dict[str, _Found] = {}
    rejections: dict[str, Rejection] = {}
    for row in looked:
        if row.rejection is not None:
            rejections.setdefault(row.rejection.id, row.rejection)
        elif row.passed is not None and row.print is not None:
            one = _Found(passed=row.passed, print=row.print)
            # The same text drawn twice is one candidate.
            found.setdefault(one.id, one)
    kept, away = drop_duplicates(one.entry for one in found.values())
    clean: list[Passed] = []
    for entry in kept:
        if (detail := leaks.find(entry.print)) is not None:
            away.append(reject(entry, Reason.BENCHMARK, detail))
        else:
            clean.append(found[entry.id].passed)
    choice = choose(clean, root=root, total=tasks)
    rejections |= {row.id: row for row in (*away, *choice.rejections)}
    ordered = sorted(rejections.values(), key=lambda row: (_REASONS.index(row.reason), row.id))
    return sorted(choice.chosen, key=lambda passed: passed.candidate.id), ordered


def make_tasks(
    chosen: Sequence[Passed], graphs: Mapping[str, Graph], *, root: int
) -> list[CorpusTask]:
    """The rows, each in its split."""
    placed = [
        Placed(
            id=passed.candidate.id,
            family=passed.candidate.family,
            pattern=passed.candidate.pattern,
            operators=passed.candidate.operators,
            graph=graphs[passed.candidate.id].hash,
        )
        for passed in chosen
    ]
    splits = assign_splits(placed, root=root)
    return [
        CorpusTask(
            id=passed.candidate.id,
            source=passed.candidate.source,
            sha256=hash_text(passed.candidate.source),
            family=passed.candidate.family,
            pattern=passed.candidate.pattern,
            operators=passed.candidate.operators,
            level=passed.candidate.level,
            rank=passed.rank,
            dtype=passed.dtype,
            tolerance=passed.tolerance,
            bound=passed.bound,
            bound_ns=passed.bound_ns,
            graph=graphs[passed.candidate.id].hash,
            split=splits[passed.candidate.id],
            origin=Origin.MODEL if passed.candidate.pattern == WRITTEN else Origin.GRAMMAR,
        )
        for passed in chosen
    ]


def _publish(wish: Wish, looked: Sequence[Looked], leaks: Leaks, recipe: Recipe) -> Built:
    chosen, rejections = select(looked, leaks, root=wish.root, tasks=wish.tasks)
    graphs = {
        row.passed.candidate.id: row.print.graph
        for row in looked
        if row.passed is not None and row.print is not None and row.print.graph is not None
    }
    tasks = make_tasks(chosen, graphs, root=wish.root)
    stats = count_tasks(tasks, rejections)
    rows, rejected = encode_lines(tasks), encode_lines(rejections)
    root = root_of(rows, rejected)
    card = write_card(
        stats,
        recipe,
        root_sha256=root,
        suffix="parquet" if has_parquet() else "jsonl",
        distance=summarise_distances(tasks, graphs),
    )
    files = {
        TASKS: rows,
        REJECTED: rejected,
        **make_data_files(tasks),
        CARD: card.encode(),
        PAGE: write_stats_page(stats, title="Kernel-writing tasks").encode(),
    }
    files[MANIFEST] = write_manifest(files, root_sha256=root)
    write_files(wish.out, files)
    made = freeze(tasks, recipe=recipe, rows_sha256=hash_bytes(rows))
    return Built(
        stats=stats, root_sha256=root, frozen=made, difference=_compare(made, read_frozen())
    )


def _compare(made: Frozen, frozen: Frozen | None) -> str | None:
    if frozen is None or frozen.recipe != made.recipe:
        return None
    return find_difference(made, frozen) or ""
