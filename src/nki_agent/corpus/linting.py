"""Proves of a corpus on disk that nothing of a benchmark is in it.

Law: everything is compared anew, from the texts; nothing that a row says of itself is believed. No
finding is the proof. The code of a task that a model wrote runs in a locked process, that of the
grammar's tasks in this one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import TaskError
from nki_agent.corpus.chat import ChatRow
from nki_agent.corpus.chat_lint import lint_row, list_texts
from nki_agent.corpus.fingerprint import Fingerprint, take_fingerprint
from nki_agent.corpus.jail import Jail
from nki_agent.corpus.known import ENTRY, follow, read_folder, read_own
from nki_agent.corpus.leaks import Leaks
from nki_agent.corpus.making import Made
from nki_agent.corpus.nodes import GraphError
from nki_agent.corpus.publishing import FOLDER as TRAJECTORIES
from nki_agent.corpus.record import CorpusTask, Origin, Solution
from nki_agent.corpus.stored import SOLUTIONS, read_solutions
from nki_agent.corpus.trajectories import LOG

FAULTS_MAX: Final = 1_000
"""More are not listed."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What was compared, and each fault in one line."""

    tasks: int
    rows: int
    known: int
    faults: tuple[str, ...]


def lint_corpus(
    folder: Path,
    tasks: Sequence[CorpusTask],
    *,
    against: tuple[Path, ...],
    tell: Callable[[str], None],
    allow_unsandboxed: bool,
) -> Found:
    """Look at every task, every line of the logs and every row of a trajectory."""
    known = list(read_own())
    for path in against:
        known += read_folder(path, tell=tell, allow_unsandboxed=allow_unsandboxed)
    leaks = Leaks(tuple(known))
    with Jail(ENTRY, allow_unsandboxed=allow_unsandboxed) as jail:
        faults = list(_lint_tasks(tasks, leaks, jail))
    for path, record in ((folder / SOLUTIONS, Solution), (folder / LOG, Made)):
        faults += _lint_log(path, record, tasks)
    rows = 0
    for name, fault in _lint_trajectories(folder, tasks, leaks):
        rows += fault is None
        if fault is not None:
            faults.append(f"{name}: {fault}")
    return Found(tasks=len(tasks), rows=rows, known=len(known), faults=tuple(faults[:FAULTS_MAX]))


def _lint_tasks(tasks: Sequence[CorpusTask], leaks: Leaks, jail: Jail) -> Iterator[str]:
    graphs: dict[str, set[str]] = defaultdict(set)
    exact: dict[str, set[str]] = defaultdict(set)
    for task in tasks:
        found = _follow(task, jail)
        if isinstance(found, str):
            yield f"{task.id}: it cannot be followed: {found}"
            continue
        yield from _lint_task(task, found, leaks)
        graphs[_hash_of(found)].add(task.split.value)
        exact[found.exact].add(task.split.value)
    for what, known in (("graph", graphs), ("text", exact)):
        for digest, splits in known.items():
            if len(splits) > 1:
                yield f"the {what} {digest[:16]} is in {' and '.join(sorted(splits))}"


def _follow(task: CorpusTask, jail: Jail) -> Fingerprint | str:
    """The fingerprint, or why there is none."""
    match task.origin:
        case Origin.MODEL:
            return follow(jail, task.source)
        case Origin.GRAMMAR:
            try:
                return take_fingerprint(task.source)
            except (TaskError, GraphError) as error:
                return str(error).splitlines()[0]


def _lint_task(task: CorpusTask, found: Fingerprint, leaks: Leaks) -> Iterator[str]:
    if (detail := leaks.find(found)) is not None:
        yield f"{task.id}: {detail}"
    for detail in leaks.find_in_text(task.source):
        yield f"{task.id}: {detail}"
    if _hash_of(found) != task.graph:
        yield f"{task.id}: its graph is {_hash_of(found)}, and the row says {task.graph}"


def _hash_of(found: Fingerprint) -> str:
    return "" if found.graph is None else found.graph.hash


def _lint_log(
    path: Path, record: type[Solution | Made], tasks: Sequence[CorpusTask]
) -> Iterator[str]:
    """Lines that are no rows of ours, or of no task of ours."""
    if not path.exists():
        return
    hashes = {task.id: task.sha256 for task in tasks}
    decoder = msgspec.json.Decoder(record)
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            name = f"{path.name}:{number}"
            try:
                row = decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                yield f"{name}: no {record.__name__}: {error}"
                continue
            if hashes.get(row.task) != row.task_sha256:
                yield f"{name}: the corpus has no task `{clean(row.task)}` with this text"


def _lint_trajectories(
    folder: Path, tasks: Sequence[CorpusTask], leaks: Leaks
) -> Iterator[tuple[str, str | None]]:
    """Faults by the row's name, and a None for each row that was read."""
    files = sorted((folder / TRAJECTORIES).glob("*.jsonl"))
    if not files:
        return
    by_id = {task.id: task for task in tasks}
    solutions = read_solutions(folder, tasks).good
    kernels = {(solution.task, solution.kernel_sha256) for solution in solutions}
    decoder = msgspec.json.Decoder(ChatRow)
    for path in files:
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            try:
                row = decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                yield f"{path.name}:{number}", f"no row of ours: {error}"
                continue
            name = f"{path.name}:{number}: {row.id}"
            yield name, None
            for fault in lint_row(row, tasks=by_id, kernels=kernels):
                yield name, fault
            for text in list_texts(row):
                for fault in leaks.find_in_text(text):
                    yield name, fault
