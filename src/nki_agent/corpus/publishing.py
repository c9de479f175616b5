"""Chooses the rows for training from the log, and writes them by split.

Law: the same log gives the same files. Of each kind no family, no family of faults and no class of
lengths has more than its share, but for a group that would lose more than half; which rows are left
out is chance of their ids. A split has the rows of its tasks only. Files appear whole or not at
all.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_text
from nki_agent.base.writing import path_error
from nki_agent.corpus.chat import ESTIMATE, SCHEMA, ChatRow, CountTokens, Kind, count_row
from nki_agent.corpus.making import Made
from nki_agent.corpus.record import CorpusTask, Split
from nki_agent.corpus.short import TOKENS_MAX as SHORT_TOKENS_MAX
from nki_agent.corpus.short import is_short
from nki_agent.corpus.stored import require_own
from nki_agent.corpus.trajectories import LOG

FOLDER: Final = "trajectories"
STATS: Final = "stats.json"
TOKENS_MAX: Final = 32_768
FAMILY_SHARE: Final = 0.25
"""Most of a kind's rows that one family of tasks may have."""
FAULT_SHARE: Final = 0.25
"""Most of the repairs that one family of faults may have."""
LENGTH_SHARE: Final = 0.4
"""Most of a kind's rows that one class of lengths may have."""
LENGTHS: Final = (1024, 2048, 3072, 4096, 6144, 8192, 12_288, 16_384, 24_576)
"""Where classes of lengths end, in tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is known of a row without reading it again."""

    id: str
    task: str
    kind: Kind
    split: Split
    family: str
    fault: str
    tokens: int
    line: int
    """Where in the log its record begins."""
    number: int
    """Its place in that record."""

    @property
    def length(self) -> str:
        """The class of its length."""
        return next((f"to {end}" for end in LENGTHS if self.tokens <= end), "longer")


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """What was published, and what was left out and why."""

    schema: int = SCHEMA
    counted_by: str
    tokens_max: int
    rows: int
    tokens: int
    trained_kernels: int
    """Different last kernels."""
    by_kind: dict[str, int]
    by_split: dict[str, int]
    by_family: dict[str, int]
    by_length: dict[str, int]
    by_fault: dict[str, int]
    left_out: dict[str, int]
    """`kind: why` → rows."""
    discarded: dict[str, int]
    """`kind: why` → what was tried and gave no row."""


def publish(
    folder: Path,
    tasks: Sequence[CorpusTask],
    *,
    counter: tuple[str, CountTokens],
    tokens_max: int = TOKENS_MAX,
) -> Stats:
    """Write `trajectories/train.jsonl` and the other splits, and what they hold.

    Raises:
        UsageError: There is no log, it is broken, or it is of another corpus.
        MachineError: The disk is full or fails.
    """
    name, count = counter
    places = {task.id: place for place, task in enumerate(tasks)}
    hashes = {task.id: task.sha256 for task in tasks}
    discarded: Counter[str] = Counter()
    entries: list[Entry] = []
    too_long = 0
    for line, made in read_log(folder / LOG):
        require_own((made,), hashes, path=folder / LOG)
        if made.task not in hashes:
            continue  # its task's row is broken
        for why, times in made.skipped.items():
            discarded[f"{made.kind.value}: {why}"] += times
        for number, row in enumerate(made.rows):
            if row.kind is Kind.SHORT and not _is_short(row, count):
                too_long += 1
                continue
            tokens = row.num_tokens
            if name != ESTIMATE:
                tokens = count_row(row.messages, row.tools, count)
            entries.append(_enter(row, line=line, number=number, tokens=tokens))
    entries.sort(key=lambda e: (places[e.task], tuple(Kind).index(e.kind), e.id))
    chosen, left_out = choose(entries, tokens_max=tokens_max)
    if too_long:
        left_out[f"short: over {SHORT_TOKENS_MAX} tokens in prompt or reply"] += too_long
    kernels = _write_all(folder, chosen, counted_by=name)
    stats = _sum_up(chosen, counted_by=name, tokens_max=tokens_max)
    stats = msgspec.structs.replace(
        stats,
        trained_kernels=len(kernels),
        left_out=dict(sorted(left_out.items())),
        discarded=dict(sorted(discarded.items())),
    )
    text = msgspec.json.format(msgspec.json.encode(stats), indent=2) + b"\n"
    _replace(folder / FOLDER / STATS, (text,))
    return stats


def read_log(path: Path) -> Iterable[tuple[int, Made]]:
    """The records of the log with the places where they begin; a torn last line is left out.

    Raises:
        UsageError: There is no log, or a line is no record.
    """
    decoder = msgspec.json.Decoder(Made)
    place = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    try:
                        yield place, decoder.decode(line)
                    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                        raise UsageError(
                            f"line {number} of `{path}` is no record of trajectories: {error}",
                            hint="take the line out; its task is then made again",
                        ) from error
                place += len(line)
    except OSError as error:
        hint = "make it with `nki-agent data trajectories`"
        raise path_error(f"read `{path}`", error, hint=hint) from error


def choose(
    entries: Sequence[Entry], *, tokens_max: int = TOKENS_MAX
) -> tuple[list[Entry], Counter[str]]:
    """The rows that are published, in their order, and how many are left out for which reason."""
    left_out: Counter[str] = Counter()
    kept: set[str] = set()
    by_kind: dict[Kind, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.tokens > tokens_max:
            left_out[f"{entry.kind.value}: over {tokens_max} tokens"] += 1
        else:
            by_kind[entry.kind].append(entry)
    for kind, rows in by_kind.items():
        left = rows
        for what, share, group in (
            ("faults", FAULT_SHARE, lambda e: e.fault.partition("/")[0]),
            ("family", FAMILY_SHARE, lambda e: e.family),
            ("length", LENGTH_SHARE, lambda e: e.length),
        ):
            before = len(left)
            left = cap(left, share=share, group=group)
            if lost := before - len(left):
                left_out[f"{kind.value}: share of {what} full"] += lost
        kept.update(entry.id for entry in left)
    return [entry for entry in entries if entry.id in kept], left_out


def cap(entries: Sequence[Entry], *, share: float, group: Callable[[Entry], str]) -> list[Entry]:
    """The rows of which no group has more than its share, or loses more than half.

    Groups that are too few for such a share are left as they are.
    """
    groups: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        groups[group(entry)].append(entry)
    if len(groups) * share <= 1:
        return list(entries)
    sizes = [len(rows) for rows in groups.values()]
    most = max(sizes)
    while most > 1 and most > share * sum(min(size, most) for size in sizes):
        most -= 1
    kept = {
        entry.id
        for rows in groups.values()
        for entry in sorted(rows, key=lambda e: hash_text(e.id))[: max(most, -(-len(rows) // 2))]
    }
    return [entry for entry in entries if entry.id in kept]


def _is_short(row: ChatRow, count: CountTokens) -> bool:
    *asked, reply = (message.content for message in row.messages)
    return is_short("".join(asked), reply, count=count)


def _enter(row: ChatRow, *, line: int, number: int, tokens: int) -> Entry:
    return Entry(
        id=row.id,
        task=row.task,
        kind=row.kind,
        split=row.split,
        family=row.family.value,
        fault=row.fault,
        tokens=tokens,
        line=line,
        number=number,
    )


def _write_all(folder: Path, chosen: Sequence[Entry], *, counted_by: str) -> set[str]:
    """Write the splits; the hashes of the last kernels."""
    kernels: set[str] = set()
    out = folder / FOLDER
    try:
        out.mkdir(exist_ok=True)
        with (folder / LOG).open("rb") as log:
            decoder = msgspec.json.Decoder(Made)

            def lines(split: Split) -> Iterable[bytes]:
                for entry in chosen:
                    if entry.split is split:
                        log.seek(entry.line)
                        row = decoder.decode(log.readline()).rows[entry.number]
                        row = msgspec.structs.replace(
                            row, num_tokens=entry.tokens, counted_by=counted_by
                        )
                        if row.kernel_sha256:
                            kernels.add(row.kernel_sha256)
                        yield msgspec.json.encode(row) + b"\n"

            for split in Split:
                _replace(out / f"{split.value}.jsonl", lines(split))
    except OSError as error:
        raise path_error(f"write to `{out}`", error) from error
    return kernels


def _replace(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file beside the old one, then put it in its place."""
    new = path.with_name(f"{path.name}.new")
    try:
        with new.open("wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        raise path_error(f"write `{path}`", error) from error


def _sum_up(chosen: Sequence[Entry], *, counted_by: str, tokens_max: int) -> Stats:
    def count(what: Callable[[Entry], str]) -> dict[str, int]:
        found: Mapping[str, int] = Counter(what(entry) for entry in chosen)
        return {name: found[name] for name in sorted(found) if name}

    return Stats(
        counted_by=counted_by,
        tokens_max=tokens_max,
        rows=len(chosen),
        tokens=sum(entry.tokens for entry in chosen),
        trained_kernels=0,
        by_kind=count(lambda e: e.kind.value),
        by_split=count(lambda e: e.split.value),
        by_family=count(lambda e: e.family),
        by_length=count(lambda e: e.length),
        by_fault=count(lambda e: e.fault),
        left_out={},
        discarded={},
    )


def read_published(folder: Path) -> Iterable[tuple[str, ChatRow | str]]:
    """Each row of the splits with its `file:line`; a text says why a line is no row.

    Raises:
        UsageError: Nothing is published.
    """
    decoder = msgspec.json.Decoder(ChatRow)
    for split in Split:
        path = folder / FOLDER / f"{split.value}.jsonl"
        try:
            with path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    place = f"{path}:{number}"
                    try:
                        yield place, decoder.decode(line)
                    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                        yield place, f"no row of trajectories: {error}"
        except OSError as error:
            hint = "make them with `nki-agent data trajectories`"
            raise path_error(f"read `{path}`", error, hint=hint) from error
