"""Instructions of the Vector Engine that search each partition for eight values.

Law: data and values are compared as float32. A value that occurs several times among the eight
takes successive matches: `nc_find_index8` gives the first match to the lowest slot,
`nc_match_replace8` to the highest. A value without a match has an index of all ones.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nki_agent.isa.dtype import DType
from nki_agent.sim.plan import Arg, Array
from nki_agent.sim.site import Site

EIGHT = 8


def _rows(site: Site, role: str) -> Arg:
    pattern = site.operand(role).pattern
    return site.read(role, (pattern.partitions, pattern.free_elems))


def max8(site: Site) -> None:
    """The eight largest elements in descending order; NaN counts as the largest."""
    out = site.scratch((site.operand("dst").pattern.partitions, EIGHT))
    site.step(_max8, _rows(site, "src"), out)
    site.store("dst", out, out.shape)


def _max8(data: Array, out: Array) -> None:
    largest = np.partition(data, data.shape[1] - EIGHT, axis=1)[:, -EIGHT:]
    out[...] = np.sort(largest, axis=1)[:, ::-1]


def nc_find_index8(site: Site) -> None:
    """Where in its partition each of eight values is."""
    dtype = site.operand("dst").dtype
    out = _index_scratch(site, dtype)
    site.step(_find_index8, _rows(site, "data"), _rows(site, "vals"), out)
    site.save("dst", out, out.shape, dtype.numpy_dtype)


def _index_scratch(site: Site, dtype: DType) -> Array:
    return site.scratch((site.operand("dst").pattern.partitions, EIGHT), dtype.numpy_dtype)


def _find_index8(data: Array, values: Array, out: Array) -> None:
    _match(data, values, out, range(EIGHT))


def _match(data: Array, values: Array, out: Array, slots: Iterable[int]) -> Array:
    """Give each slot, in this order, the first match that is not taken; returns what is taken."""
    taken = np.zeros(data.shape, np.bool_)
    rows = np.arange(data.shape[0])
    missing = np.iinfo(out.dtype).max
    for slot in slots:
        matches = (data == values[:, slot : slot + 1]) & ~taken
        found, where = matches.any(axis=1), matches.argmax(axis=1)
        out[:, slot] = np.where(found, where, missing)
        taken[rows[found], where[found]] = True
    return taken


def nc_match_replace8(site: Site) -> None:
    """`data` with one match of each of eight values replaced; where they were, on request."""
    pattern = site.operand("data").pattern
    shape = (pattern.partitions, pattern.free_elems)
    role = "dst_idx" if site.has_tensor("dst_idx") else None
    dtype = DType.UINT32 if role is None else site.operand(role).dtype
    out, index = site.scratch(shape), site.scratch((shape[0], EIGHT), dtype.numpy_dtype)
    inputs = (_rows(site, "data"), _rows(site, "vals"), site.number("imm"))
    site.step(_match_replace8, *inputs, out, index)
    site.store("dst", out, shape)
    if role is not None:
        site.save(role, index, index.shape, dtype.numpy_dtype)


def _match_replace8(data: Array, values: Array, imm: Array, out: Array, index: Array) -> None:
    taken = _match(data, values, index, reversed(range(EIGHT)))
    out[...] = data
    np.copyto(out, imm, where=taken)
