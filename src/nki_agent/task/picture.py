"""An output's wrong tile as a few lines of text: where it is wrong, and the values around there.

Law: at most `LINES_MAX` lines, whatever the output; values are those of one trial whose seed is
spent. Tiles are those of the output as [rows, last axis], as in `region`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from nki_agent.task.cause import Mask
from nki_agent.task.region import tile_sizes

Reals = NDArray[np.float64]

ROWS, COLUMNS = 5, 6
"""Elements shown around the worst one."""
MAP_ROWS, MAP_COLUMNS = 8, 32
"""Cells of the map of a whole tile."""
LINES_MAX = 1 + MAP_ROWS + 3 * (ROWS + 2)
CELL = 10
NONE_WRONG, SOME_WRONG, ALL_WRONG = ".", "+", "#"


def draw_tile(expected: Reals, actual: Reals, bad: Mask, *, at: tuple[int, ...]) -> str:
    """The tile that holds the element `at`: a map of what is wrong in it, then values around it."""
    if not at:
        return ""
    shape = (math.prod(expected.shape[:-1]), expected.shape[-1])
    row = int(np.ravel_multi_index(at[:-1], expected.shape[:-1])) if len(at) > 1 else 0
    spans = tuple(
        _find_span(place, size, tile)
        for place, size, tile in zip((row, at[-1]), shape, tile_sizes(), strict=True)
    )
    parts = (expected.reshape(shape)[spans], actual.reshape(shape)[spans])
    place = (row - spans[0].start, at[-1] - spans[1].start)
    window = tuple(
        _find_window(p, n, w)
        for p, n, w in zip(place, parts[0].shape, (ROWS, COLUMNS), strict=True)
    )
    wanted, got = (part[window] for part in parts)
    rows, columns = (
        range(span.start + w.start, span.start + w.stop)
        for span, w in zip(spans, window, strict=True)
    )
    key = f"{ALL_WRONG} wrong, {SOME_WRONG} partly, {NONE_WRONG} right"
    head = f"tile of rows {_name(spans[0])}, columns {_name(spans[1])}; {key}"
    lines = [head, *_draw_map(bad.reshape(shape)[spans])]
    with np.errstate(over="ignore", invalid="ignore"):
        blocks = {"expected": wanted, "got": got, "got - expected": got - wanted}
    for title, values in blocks.items():
        lines += _draw_block(title, values, rows, columns)
    return "\n".join(lines)


def _find_span(place: int, size: int, tile: int) -> slice:
    start = place // tile * tile
    return slice(start, min(start + tile, size))


def _find_window(place: int, size: int, width: int) -> slice:
    start = max(0, min(place - width // 2, size - width))
    return slice(start, min(start + width, size))


def _name(span: slice) -> str:
    return f"{span.start}..{span.stop - 1}"


def _draw_map(bad: Mask) -> Iterator[str]:
    """A character for each part of the tile."""
    row_parts = np.array_split(np.arange(bad.shape[0]), min(MAP_ROWS, bad.shape[0]))
    column_parts = np.array_split(np.arange(bad.shape[1]), min(MAP_COLUMNS, bad.shape[1]))
    for rows in row_parts:
        cells = [bad[rows[0] : rows[-1] + 1, c[0] : c[-1] + 1] for c in column_parts]
        yield "  " + "".join(map(_draw_cell, cells))


def _draw_cell(bad: Mask) -> str:
    if bad.all():
        return ALL_WRONG
    return SOME_WRONG if bad.any() else NONE_WRONG


def _draw_block(title: str, values: Reals, rows: range, columns: range) -> Iterator[str]:
    head = "".join(f"{column:>{CELL}}" for column in columns)
    yield title
    yield f"{'':>6}{head}"
    for number, line in zip(rows, values, strict=True):
        cells = "".join(f"{value + 0.0:>{CELL}.3g}" for value in line)
        yield f"{number:>6}{cells}"
