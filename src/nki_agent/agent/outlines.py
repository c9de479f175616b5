"""A traced Program for a model: the lines that matter, and the tiles that fill the memory.

Law: bounded whatever the Program holds; what is left out is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nki_agent.agent.brief import sum_up
from nki_agent.cost.summary import Summary
from nki_agent.verify.outline import Outline, OutlineLine, OutlineTile

LINES_MAX = 10
AROUND = 3
"""Lines before and after one that is asked for."""
TILES_MAX = 5
ARGUMENTS_MAX = 8
TEXT_BYTES_MAX = 180
PERCENT = 100.0


def write_outline(outline: Outline, summary: Summary | None, *, line: int | None = None) -> str:
    """The Program around one source line; without one, where most of the time and work is."""
    shares = _find_shares(summary)
    chosen = _choose(outline.lines, shares, line)
    if line is not None and not chosen:
        known = sorted({row.line for row in outline.lines})[:LINES_MAX]
        return f"Nothing near line {line} became an instruction; lines {_list(known)} did."
    rows = [
        f"arguments: {_join(outline.arguments)}",
        f"results: {_join(outline.results)}",
        f"{outline.num_lines} kinds of instruction; those that matter, in the order of the source:",
        *(_write_line(row, shares) for row in chosen),
    ]
    if more := outline.num_lines - len(chosen):
        rows.append(f"and {more} more; ask with `line` to see what a source line became")
    if outline.num_uncounted:
        rows.append(f"{outline.num_uncounted} later instructions are not counted")
    rows += _write_tiles(outline.tiles, outline.num_tiles)
    return "\n".join(rows)


def _choose(
    lines: Sequence[OutlineLine], shares: Mapping[tuple[str, str], float], line: int | None
) -> list[OutlineLine]:
    if line is not None:
        near = [row for row in lines if abs(row.line - line) <= AROUND]
        return near[:LINES_MAX]
    ranked = sorted(lines, key=lambda row: (-shares.get(_key(row), 0.0), -row.count))[:LINES_MAX]
    return [row for row in lines if row in ranked]


def _find_shares(summary: Summary | None) -> dict[tuple[str, str], float]:
    if summary is None:
        return {}
    return {(line.place, line.op): line.share for line in summary.lines}


def _key(row: OutlineLine) -> tuple[str, str]:
    return f"{row.file}:{row.line}", row.op


def _write_line(row: OutlineLine, shares: Mapping[tuple[str, str], float]) -> str:
    share = shares.get(_key(row))
    time = "" if share is None else f"  ({PERCENT * share:.0f} % of the chain)"
    return f"  line {row.line}, ×{row.count}: {sum_up(row.first, max_bytes=TEXT_BYTES_MAX)}{time}"


def _write_tiles(tiles: Sequence[OutlineTile], num_tiles: int) -> Iterator[str]:
    if not tiles:
        return
    yield f"{num_tiles} on-chip tiles; the largest, in bytes of each partition:"
    for tile in tiles[:TILES_MAX]:
        shape = ", ".join(map(str, tile.shape))
        name = sum_up(tile.name, max_bytes=TEXT_BYTES_MAX)
        yield (
            f"  line {tile.line}: {name} {tile.memory} [{shape}] {tile.dtype},"
            f" {tile.partition_bytes} ×{tile.count}"
        )


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _join(items: Sequence[str]) -> str:
    shown = [sum_up(item, max_bytes=TEXT_BYTES_MAX) for item in items[:ARGUMENTS_MAX]]
    if more := len(items) - len(shown):
        shown.append(f"and {more} more")
    return "; ".join(shown)
