"""Gives every tensor a place in one memory, so that no two that are live together share bytes.

Law: a tensor is live from the first to the last instruction that touches it, both included; a loop
that it outlives counts as one touch (`memory.columns`). Places are handed out in order of first
use, going round the memory (next fit), so a place is reused as late as possible and loads can run
ahead. Where that leaves no gap large enough, the tightest gap is taken, and at last the largest
tensors are placed first. Units are the caller's: bytes of a partition, or banks.
Not covered: places above partition 0; a tensor of one partition costs its bytes in all of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nki_agent.memory.columns import NEVER
from nki_agent.memory.forms import Ints

BY_SIZE_MAX = 4096
"""Tensors that the last resort takes on: its time grows with their square."""
STEPS_MAX = 30_000_000
"""Pieces of memory that are looked at; more would take minutes."""
NOBODY = -1


class TooManyError(Exception):
    """So many small tensors are live together that finding places takes too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The tensors of one memory in order of first use; rows of the lists belong together."""

    tensors: Sequence[int]
    sizes: Sequence[int]
    first: Sequence[int]
    last: Sequence[int]
    fixed: Sequence[int]
    """Where the kernel wants it; -1 where it does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A place for each tensor of a demand, and whose place it takes over."""

    starts: Sequence[int]
    reuses: Sequence[tuple[int, ...]]
    """Tensor ids whose place this one takes over, whole or in part."""


def find_layout(demand: Demand, *, capacity: int) -> Layout | None:
    """Places for all, or None where no way was found to fit them; TooManyError past the limit."""
    if any(start != NOBODY for start in demand.fixed):
        starts = _around_fixed(demand, capacity)
        return None if starts is None else Layout(starts=starts, reuses=_reuses(demand, starts))
    layout = _next_fit(demand, capacity)
    if layout is not None:
        return layout
    starts = _best_fit(demand, capacity) or _largest_first(demand, capacity)
    return None if starts is None else Layout(starts=starts, reuses=_reuses(demand, starts))


def _next_fit(demand: Demand, capacity: int) -> Layout | None:
    """Go round the memory.

    Segment i is [bounds[i], bounds[i + 1]) and was last given to owners[i], who needs it up to
    until[i]. The last segment is empty and never free: it marks the end.
    """
    bounds, until, owners = [0, capacity, capacity], [-1, NEVER], [NOBODY, NOBODY]
    starts: list[int] = []
    reuses: list[tuple[int, ...]] = []
    at = steps = 0
    rows = zip(demand.tensors, demand.sizes, demand.first, demand.last, strict=True)
    for tensor, size, first, last in rows:
        low = high = at
        end, wrapped = len(until) - 1, False
        if steps > STEPS_MAX:
            raise TooManyError
        while bounds[high] - bounds[low] < size:
            if until[high] < first:
                high += 1
            elif high < end:
                high += 1
                low = high
            elif wrapped:
                return None
            else:
                wrapped, low, high = True, 0, 0
        steps += high - at if not wrapped else high + end - at
        start = bounds[low]
        starts.append(start)
        taken = owners[low:high]
        reuses.append(tuple(taken) if NOBODY not in taken else _somebody(taken))
        if bounds[high] == start + size:
            bounds[low:high], until[low:high], owners[low:high] = [start], [last], [tensor]
        else:
            bounds[low:high] = [start, start + size]
            until[low:high] = [last, until[high - 1]]
            owners[low:high] = [tensor, taken[-1]]
        at = low + 1
    return Layout(starts=starts, reuses=reuses)


def _somebody(owners: Sequence[int]) -> tuple[int, ...]:
    return tuple(t for t in owners if t != NOBODY)


def _best_fit(demand: Demand, capacity: int) -> list[int] | None:
    """In order of first use, each into the smallest gap that holds it."""
    live: list[tuple[int, int, int]] = []  # (start, end, last use), by start
    starts: list[int] = []
    steps = 0
    rows = zip(demand.sizes, demand.first, demand.last, strict=True)
    for size, first, last in rows:
        steps += len(live)
        if steps > STEPS_MAX:
            raise TooManyError
        live = [row for row in live if row[2] >= first]
        gaps = _gaps([(start, end) for start, end, _ in live], capacity)
        fitting = [(end - start, start) for start, end in gaps if end - start >= size]
        if not fitting:
            return None
        start = min(fitting)[1]
        starts.append(start)
        live.insert(bisect_left(live, (start,)), (start, start + size, last))
    return starts


def _gaps(taken: Sequence[tuple[int, int]], capacity: int) -> list[tuple[int, int]]:
    gaps, at = [], 0
    for start, end in taken:
        if start > at:
            gaps.append((at, start))
        at = max(at, end)
    return [*gaps, (at, capacity)] if at < capacity else gaps


def _largest_first(demand: Demand, capacity: int) -> list[int] | None:
    """Each at the lowest place that is free for its whole life, the largest first."""
    count = len(demand.tensors)
    if count > BY_SIZE_MAX:
        return None
    sizes, first, last, starts = (
        np.array(values, np.int64)
        for values in (demand.sizes, demand.first, demand.last, demand.fixed)
    )
    order = np.lexsort((first, -sizes))
    for i in order.tolist():
        if starts[i] != NOBODY:
            continue
        near = (starts != NOBODY) & (first <= last[i]) & (last >= first[i])
        taken = sorted(zip(starts[near].tolist(), (starts + sizes)[near].tolist(), strict=True))
        place = next((s for s, e in _gaps(taken, capacity) if e - s >= sizes[i]), None)
        if place is None:
            return None
        starts[i] = place
    return [int(s) for s in starts]


def _around_fixed(demand: Demand, capacity: int) -> list[int] | None:
    """Places the kernel chose stay; the others go round in what those leave free at all times."""
    fixed = [i for i, start in enumerate(demand.fixed) if start != NOBODY]
    free = [i for i, start in enumerate(demand.fixed) if start == NOBODY]
    starts = list(demand.fixed)
    if not free:
        return starts
    taken = sorted((starts[i], starts[i] + demand.sizes[i]) for i in fixed)
    gaps = sorted(_gaps(taken, capacity), key=lambda gap: gap[0] - gap[1])
    part = _subset(demand, free)
    for low, high in gaps[:1]:
        layout = _next_fit(part, high - low)
        if layout is not None:
            for i, start in zip(free, layout.starts, strict=True):
                starts[i] = low + start
            return starts
    return _largest_first(demand, capacity)


def _subset(demand: Demand, rows: Sequence[int]) -> Demand:
    return Demand(
        tensors=[demand.tensors[i] for i in rows],
        sizes=[demand.sizes[i] for i in rows],
        first=[demand.first[i] for i in rows],
        last=[demand.last[i] for i in rows],
        fixed=[demand.fixed[i] for i in rows],
    )


def _reuses(demand: Demand, starts: Sequence[int]) -> list[tuple[int, ...]]:
    """Whose place each tensor takes over, when they come in order of first use."""
    top = max((s + n for s, n in zip(starts, demand.sizes, strict=True)), default=0)
    bounds, owners = [0, top], [NOBODY, NOBODY]
    reuses: list[tuple[int, ...]] = []
    for tensor, size, start in zip(demand.tensors, demand.sizes, starts, strict=True):
        end = start + size
        low = bisect_right(bounds, start) - 1
        high = bisect_left(bounds, end)
        taken = owners[low:high]
        reuses.append(tuple(sorted({t for t in taken if t != NOBODY})))
        new_bounds, new_owners = [start], [tensor]
        if bounds[low] < start:
            new_bounds, new_owners = [bounds[low], start], [taken[0], tensor]
        if high < len(bounds) and bounds[high] > end:
            new_bounds.append(end)
            new_owners.append(taken[-1])
        bounds[low:high], owners[low:high] = new_bounds, new_owners
    return reuses


def live_totals(demand: Demand, weights: Ints, num_instructions: int) -> Ints:
    """The sum of `weights` over the tensors that are live at each instruction."""
    steps = np.zeros(num_instructions + 1, np.int64)
    np.add.at(steps, np.array(demand.first, np.int64), weights)
    np.subtract.at(steps, np.array(demand.last, np.int64) + 1, weights)
    return np.cumsum(steps)[:-1]
