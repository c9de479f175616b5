"""Instructions that move elements by a mask, by run-time indices or by value.

Law: elements keep their bits. An index outside of its tensor gives poison (NaN, or 0x7F bytes in an
integer) and a warning in checked runs; a chip gives anything.
Not published, and ours: which of equal values `topk` takes (those that come first in the snake) and
how equal values follow each other in its result (the later one first).
"""

from __future__ import annotations

import numpy as np

from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.isa.gather import GROUP, KEEP, QUADRANT
from nki_agent.sim.plan import Array, Hole, refuse
from nki_agent.sim.rounding import FLOAT, WORD
from nki_agent.sim.site import Site
from nki_agent.sim.transfer import load_common, poison, save_common, transfer_dtype

INDEX = np.dtype(np.int64)
INT32 = np.dtype(np.int32)
INDEX_BITS = 16
"""Enough for a position in the snake of `topk`."""


def _rows(site: Site, role: str) -> tuple[int, int]:
    pattern = site.operand(role).pattern
    return pattern.partitions, pattern.free_elems


# Shuffles.


def nc_stream_shuffle(site: Site) -> None:
    """Copy partitions within each quadrant of 32 by the mask; 255 leaves a partition as it is."""
    dtype = transfer_dtype(site, "dst", "src")
    partitions, free = _rows(site, "dst")
    sources = _rows(site, "src")[0]
    moves = _moves(site.call.attribute("shuffle_mask"), partitions)
    if not moves:
        return
    rows = np.array(moves, INDEX).T
    dst = load_common(site, "dst", (partitions, free), dtype)
    src = load_common(site, "src", (sources, free), dtype)
    site.step(_copy_rows, dst, src, rows)
    if not isinstance(dst, Hole):
        save_common(site, "dst", dst, (partitions, free), dtype)


def _moves(mask: object, partitions: int) -> list[tuple[int, int]]:
    """Pairs of a partition of `dst` and the partition of `src` that it takes."""
    assert isinstance(mask, tuple)
    return [
        (row, row // QUADRANT * QUADRANT + mask[row % QUADRANT])
        for row in range(partitions)
        if mask[row % QUADRANT] != KEEP
    ]


def _copy_rows(dst: Array, src: Array, rows: Array) -> None:
    # Taking rows by a list makes a copy, so `dst` may be `src`.
    dst[rows[0]] = src[rows[1]]


# Gathers.


def nc_n_gather(site: Site) -> None:
    """Each partition takes its own elements by its own indices."""
    dtype, shape = transfer_dtype(site, "dst", "data"), _rows(site, "dst")
    data = load_common(site, "data", _rows(site, "data"), dtype)
    indices = site.load("indices", shape, WORD)
    limit = _rows(site, "data")[1]
    site.check(_check_indices, "indices", "nc_n_gather", limit, indices)
    out = site.scratch(shape, dtype)
    site.step(_gather, data, indices, out, site.scratch(shape, INDEX))
    save_common(site, "dst", out, shape, dtype)


def local_gather(site: Site) -> None:
    """Each group of 16 partitions takes elements by the indices that the group holds together."""
    dtype, shape = transfer_dtype(site, "dst", "src_buffer"), _rows(site, "dst")
    data = load_common(site, "src_buffer", _rows(site, "src_buffer"), dtype)
    held = site.load("index", _rows(site, "index"), np.dtype(np.uint16))
    indices = site.scratch(shape, INDEX)
    each = site.call.attribute("num_elem_per_idx")
    site.step(_spread_indices, held, each, indices)
    limit = _rows(site, "src_buffer")[1]
    site.check(_check_indices, "index", "local_gather", limit, indices)
    out = site.scratch(shape, dtype)
    site.step(_gather, data, indices, out, site.scratch(shape, INDEX))
    save_common(site, "dst", out, shape, dtype)


def _spread_indices(held: Array, each: int, out: Array) -> None:
    """Index k of a group lies in its partition k % 16; it names `each` elements in a row."""
    partitions, free = held.shape
    groups, count = partitions // GROUP, out.shape[1] // each
    lists = held.reshape(groups, GROUP, free).transpose(0, 2, 1).reshape(groups, -1)[:, :count]
    named = lists[:, :, None].astype(INDEX) + np.arange(each)
    out.reshape(groups, GROUP, -1)[...] = named.reshape(groups, 1, -1)


def _gather(data: Array, indices: Array, out: Array, work: Array) -> None:
    partitions, free = data.shape
    np.add(indices, np.arange(partitions)[:, None] * free, work)
    np.take(np.ascontiguousarray(data).reshape(-1), work, None, out, "clip")
    if indices.max() >= free:
        np.copyto(out, poison(out.dtype), where=indices >= free)


def _check_indices(role: str, op: str, limit: int, indices: Array) -> Diagnostic | None:
    largest = int(indices.max())
    if largest < limit:
        return None
    return Diagnostic(
        code="NK202",
        severity=Severity.WARNING,
        what=f"an element that `{role}` of `{op}` names",
        got=str(largest),
        limit=f"0 to {limit - 1}",
        hint="clamp the indices; outside of the tensor a chip gives anything",
    )


# Searches.


def nonzero_with_count(site: Site) -> None:
    """Positions of nonzero elements, padding, and their count; only partitions 0, 16, 32, ..."""
    shape = _rows(site, "dst")
    offset, padding = (_whole(site, name) for name in ("index_offset", "padding_val"))
    src = site.load("src", _rows(site, "src"), site.stored_dtype("src"))
    dst = site.load("dst", shape, INT32)
    site.step(_find_nonzero, src, (offset, padding), dst)
    if not isinstance(dst, Hole):
        site.save("dst", dst, shape, INT32)


def _whole(site: Site, name: str) -> int:
    value = site.call.attribute(name)
    if not isinstance(value, int):
        refuse(f"`{name}` of `{site.call.declaration.name}` that is no int")
    return int(np.array(value).astype(INT32))


def _find_nonzero(src: Array, numbers: tuple[int, int], dst: Array) -> None:
    offset, padding = numbers
    rows = np.full((len(dst[::GROUP]), dst.shape[1]), padding, INT32)
    for row, values in zip(rows, src[::GROUP], strict=True):
        found = np.flatnonzero(values)
        row[: len(found)] = (found + offset).astype(INT32)
        row[-1] = len(found)
    dst[::GROUP] = rows


def sequence_bounds(site: Site) -> None:
    """Start and end (not included) of the run of equal ids around each element; id 0 is padding."""
    elems = site.operand("segment_ids").pattern.free_elems
    dtype = site.operand("dst").dtype.numpy_dtype
    ids = site.load("segment_ids", (1, elems), dtype)
    site.check(_check_ids, "sequence_bounds", ids)
    out = site.scratch((1, 2 * elems), dtype)
    site.step(_find_bounds, ids, out)
    site.save("dst", out, out.shape, dtype)


def _is_bad_id(ids: Array) -> Array:
    is_bad: Array = ~(ids >= 0) | (ids != np.floor(ids))
    return is_bad


def _find_bounds(ids: Array, out: Array) -> None:
    (row,), elems = ids, ids.shape[1]
    cuts = np.flatnonzero(row[1:] != row[:-1]) + 1
    edges = np.concatenate(([0], cuts, [elems]))
    lengths = np.diff(edges)
    bounds = out.reshape(2, elems)
    bounds[0] = np.where(row == 0, elems, np.repeat(edges[:-1], lengths))
    bounds[1] = np.where(row == 0, -1, np.repeat(edges[1:], lengths))
    np.copyto(bounds, poison(out.dtype), where=_is_bad_id(row))


def _check_ids(op: str, ids: Array) -> Diagnostic | None:
    bad = ids[_is_bad_id(ids)]
    if not bad.size:
        return None
    return Diagnostic(
        code="NK506",
        severity=Severity.WARNING,
        what=f"an id in `segment_ids` of `{op}`",
        got=f"{float(bad[0]):.6g}",
        limit="whole numbers from 0 on",
        hint="number the segments from 1 and mark padding with 0",
    )


def topk(site: Site) -> None:
    """The largest elements of each group's snake, in ascending order, as a snake again.

    Result j lies in partition j % 16, column j // 16 of the group; what is behind the last result
    is poison.
    """
    shape = _rows(site, "val_dst")
    src = site.read("src", _rows(site, "src"))
    values, indices = site.scratch(shape), site.scratch(shape, WORD)
    site.step(_topk, src, site.call.attribute("n"), values, indices)
    site.store("val_dst", values, shape, is_exact=True)
    site.save("idx_dst", indices, shape, WORD)


def _topk(src: Array, n: int, values: Array, indices: Array) -> None:
    partitions, free = src.shape
    count = values.shape[1]
    groups = partitions // GROUP
    snakes = src.reshape(groups, GROUP, free).transpose(0, 2, 1).reshape(groups, -1)[:, :n]
    # Numbers that rise where values fall, then with the position; NaN counts as the largest.
    ranks = (~_ordered(snakes) << INDEX_BITS) | np.arange(n)
    ranks.partition(count - 1, axis=1)
    best = np.sort(ranks[:, :count], axis=1)[:, ::-1] & ((1 << INDEX_BITS) - 1)
    _fill_snake(np.take_along_axis(snakes, best, axis=1), values)
    _fill_snake(best, indices)


def _ordered(values: Array) -> Array:
    """Integers in the order of float32 values; both zeros are equal, every NaN is above."""
    plain = np.where(np.isnan(values), np.float32(np.nan), values + np.float32(0)).astype(FLOAT)
    bits = plain.view(INT32)
    return np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits).astype(INDEX)


def _fill_snake(results: Array, out: Array) -> None:
    groups, count = results.shape
    columns = -(-count // GROUP)
    snake = np.full((groups, columns * GROUP), poison(out.dtype), out.dtype)
    snake[:, :count] = results
    out.fill(poison(out.dtype)[()])
    parts = snake.reshape(groups, columns, GROUP).transpose(0, 2, 1)
    out[:, :columns] = parts.reshape(-1, columns)
