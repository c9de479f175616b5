"""Tasks that a model wrote: the same filters, in a locked process.

Law: their code is foreign and never runs in ours. A row that is no row is named by its line, and
the others are unharmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from nki_agent.base.bounded import IrregularError, TooLargeError, read_bounded
from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import UsageError
from nki_agent.base.writing import path_error
from nki_agent.corpus.candidate import Candidate, name_candidate
from nki_agent.corpus.jail import Jail
from nki_agent.corpus.looked import Looked
from nki_agent.corpus.record import Family, Reason, Rejection

PATTERN: Final = "written"
LOOK: Final = "nki_agent.corpus.jailed:look"
SOURCE_BYTES_MAX: Final = 64 << 10
"""A longer task file is none."""
FILE_BYTES_MAX: Final = 1 << 30
FUSED_MIN, BLOCK_MIN = 6, 20
"""Nodes of a graph from which a task is of level 2, and of level 3."""
_SIGNS: Final = (
    (Family.CONV, "convolution"),
    (Family.POOL, "pool"),
    (Family.SORT, "topk"),
    (Family.SORT, "sort"),
    (Family.SCAN, "cumsum"),
    (Family.SCAN, "cumprod"),
    (Family.QUANTISED, "to float8"),
    (Family.QUANTISED, "to integer"),
    (Family.GATHER, "take"),
    (Family.GATHER, "scatter"),
    (Family.GATHER, "gather"),
)
"""Words of a graph by which a task's family is told, the first that is found."""


class WrittenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the file."""

    source: str
    model: str
    """Who wrote it."""


def read_written(path: Path, *, tell: Callable[[str], None]) -> Iterator[tuple[int, WrittenRow]]:
    """The rows of a file with their numbers; what is none is told and left out.

    Raises:
        UsageError: it cannot be read.
        MachineError: the disk fails.
    """
    decoder = msgspec.json.Decoder(WrittenRow)
    try:
        lines = read_bounded(path, FILE_BYTES_MAX).splitlines()
    except TooLargeError as error:
        raise UsageError(f"`{path}` is larger than {FILE_BYTES_MAX} bytes") from error
    except IrregularError as error:
        raise UsageError(f"`{path}` is no regular file") from error
    except OSError as error:
        raise path_error(f"read `{path}`", error) from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            tell(f"{path}:{number}: left out, no row: {error}")
            continue
        if len(row.source.encode(errors="surrogatepass")) > SOURCE_BYTES_MAX:
            tell(f"{path}:{number}: left out, its source has over {SOURCE_BYTES_MAX} bytes")
            continue
        yield number, row


def look_at_written(
    path: Path, *, tell: Callable[[str], None], allow_unsandboxed: bool
) -> Iterator[Looked]:
    """What became of each row."""
    with Jail(LOOK, allow_unsandboxed=allow_unsandboxed) as jail:
        for number, row in read_written(path, tell=tell):
            yield _look(number, row, jail)


def _look(number: int, row: WrittenRow, jail: Jail) -> Looked:
    candidate = Candidate(
        id=name_candidate(Family.BLOCK, PATTERN, row.source),
        source=row.source,
        family=Family.BLOCK,
        pattern=PATTERN,
        operators=(),
        level=1,
        index=number,
    )
    data = jail.ask(msgspec.msgpack.encode(candidate))
    try:
        if isinstance(data, str):
            return _fail(candidate, data)
        found = msgspec.msgpack.decode(data, type=Looked)
    except msgspec.DecodeError as error:
        return _fail(candidate, f"it answered in no form of ours: {error}")
    if found.passed is None or found.print is None or found.print.graph is None:
        told = found.rejection
        reason, detail = (told.reason, told.detail) if told else (Reason.FAILS, "no answer")
        return _fail(candidate, detail, reason=reason)
    # What the process says of the candidate itself is not asked.
    placed = place_candidate(candidate, found.print.graph.lines)
    return msgspec.structs.replace(
        found, index=number, passed=replace(found.passed, candidate=placed)
    )


def _fail(candidate: Candidate, detail: str, *, reason: Reason = Reason.FAILS) -> Looked:
    rejection = Rejection(
        id=candidate.id,
        family=candidate.family,
        pattern=candidate.pattern,
        reason=reason,
        detail=clean(detail.splitlines()[0] if detail else "no reason"),
    )
    return Looked(pattern=PATTERN, index=candidate.index, rejection=rejection)


def place_candidate(candidate: Candidate, lines: Sequence[str]) -> Candidate:
    """The candidate with family, level and operators as its graph says."""
    operators = [line.split(" = ", 1)[1].split("(")[0] for line in lines if " = " in line]
    steps = [name for name in operators if not name.startswith(("input", "data", "number"))]
    family = find_family(steps)
    level = 1 + (len(steps) >= FUSED_MIN) + (len(steps) >= BLOCK_MIN)
    return replace(
        candidate,
        id=name_candidate(family, PATTERN, candidate.source),
        family=family,
        level=level,
        operators=tuple(name.split()[0] for name in steps),
    )


def find_family(steps: Sequence[str]) -> Family:
    """What kind of work steps are."""
    for family, sign in _SIGNS:
        if any(sign in step for step in steps):
            return family
    products = sum(step == "contract" for step in steps)
    if products > 1 and "exp" in steps and "amax" in steps:
        return Family.ATTENTION
    if products:
        return Family.MATMUL
    if "exp" in steps and "amax" in steps:
        return Family.SOFTMAX
    if "sum" in steps and "recip" in steps and "sqrt" in steps:
        return Family.NORM
    if any(step in {"sum", "amax", "amin", "prod"} for step in steps):
        return Family.REDUCTION
    moves = all(step.split()[0] in {"move", "cat", "flip", "roll"} for step in steps)
    return Family.LAYOUT if moves else Family.ELEMENTWISE
