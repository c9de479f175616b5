"""The iteration space of a pass over rows: which axes are loops, rows and columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nki_agent.builtin.align import Walk, group_size, joins, moving_axes
from nki_agent.builtin.pending import Place
from nki_agent.builtin.tile_steps import Kind

PAIR = 2


@dataclass(frozen=True, slots=True)
class Space:
    """The iteration space of a stage after merging: axis groups from the outermost to columns."""

    groups: tuple[tuple[int, ...], ...]
    sizes: tuple[dict[int, int], ...]
    is_flat: bool
    has_total: bool = False
    """Whether the last of `outer` is the innermost loop, over which a total is made."""
    has_middle: bool = False
    """Whether the last of `outer` lies inside of each partition, between rows and columns."""
    period: tuple[int, ...] = ()
    """The inner axes of the rows, if what varies along them alone is the same for all tiles."""

    @property
    def outer(self) -> tuple[tuple[int, ...], ...]:
        """Groups that become loops around everything."""
        return self.groups[:-1] if self.is_flat else self.groups[:-2]

    def num_tiles(self, width: int, each: int, lanes: int) -> int:
        """Tiles of so many columns, with so many rows in each partition."""
        found = [max(group_size(group, self.sizes)) for group in self.groups]
        if self.is_flat:
            return math.prod(found[:-1]) * -(-found[-1] // (lanes * width))
        rows = -(-found[-2] // (lanes * each))
        return math.prod(found[:-2]) * rows * -(-found[-1] * each // width)

    @property
    def is_one_row(self) -> bool:
        """Whether there is one row, which every value then belongs to."""
        return not self.is_flat and all(
            size == 1 for size in group_size(self.groups[-2], self.sizes)
        )

    def place(self, axes: frozenset[int], *, has_col_loop: bool) -> Place:
        """Kind and level of a value that varies along these axes."""
        if self.period and axes and axes <= set(self.period):
            return Place(Kind.ROW, 0)
        touched = [bool(axes & set(group)) for group in self.groups]
        outer = touched[: len(self.outer)]
        col = touched[-1]
        row = col if self.is_flat else touched[-2] or self.is_one_row
        loops = outer[:-1] if self.has_total or self.has_middle else outer
        row |= self.has_middle and outer[-1]
        level = max((i + 1 for i, on in enumerate(loops) if on), default=0)
        if has_col_loop and col:
            level = len(loops) + 1
        if row:
            level = len(loops) + 1 + has_col_loop
        if self.has_total and outer[-1]:
            level = len(loops) + 2
        kind = {
            (True, True): Kind.FULL,
            (True, False): Kind.ROW,
            (False, True): Kind.VECTOR,
            (False, False): Kind.ONE,
        }[row, col]
        return Place(kind, level)

    def place_read(self, walks: Sequence[Walk], *, has_col_loop: bool) -> Place:
        """Kind and level of a tensor that is read along these walks."""
        return self.place(moving_axes(walks, self.sizes), has_col_loop=has_col_loop)


def with_period(
    space: Space, made: Iterable[frozenset[int]], tensors: Sequence[Sequence[Walk]], lanes: int
) -> Space | None:
    """Put two axes of few elements on the partitions together, as channels of several images.

    `made` are the axes of values, `tensors` how those in HBM are walked. None where the inner
    axis fills most partitions, or where a value depends on one of the two and on columns.
    """
    if space.is_flat or len(space.groups) <= PAIR or space.has_total or space.has_middle:
        return None
    *outer, repeats, period, cols = space.groups
    size, count = (max(group_size(group, space.sizes)) for group in (period, repeats))
    if PAIR * size > lanes or count == 1:
        return None
    for axes in (*made, *(moving_axes(walks, space.sizes) for walks in tensors)):
        inner, both = axes & set(period), axes & {*period, *repeats}
        if both and not ((axes & set(repeats) and inner) or axes <= set(period)):
            return None
    along = [walks for walks in tensors if moving_axes(walks, space.sizes) & set(repeats)]
    by_set = [[walks[i] for walks in along] for i in range(len(space.sizes))]
    if not joins(repeats, period[0], space.sizes, by_set):
        return None
    groups = (*outer, (*repeats, *period), cols)
    return replace(space, groups=groups, period=period)


def longest_as_rows(
    groups: list[tuple[int, ...]], sizes: tuple[dict[int, int], ...], partitions: int
) -> list[tuple[int, ...]]:
    """Put the longest of the outer axes on the partitions, where the last leaves most idle.

    Which of them are loops and in which order changes no value.
    """
    *outer, cols = groups
    longest = max(outer, key=lambda group: max(group_size(group, sizes)))
    filled = max(group_size(outer[-1], sizes))
    if filled >= partitions or max(group_size(longest, sizes)) < 2 * filled:
        return groups
    return [*(group for group in outer if group is not longest), longest, cols]


def space_of_total(
    groups: list[tuple[int, ...]], sizes: tuple[dict[int, int], ...], summed: frozenset[int]
) -> Space:
    """The axis of a total innermost, and the longest of the others on the partitions."""
    *outer, cols = groups
    added = next(group for group in outer if summed & set(group))
    rest = [group for group in outer if group is not added]
    rows = max(rest, key=lambda group: max(group_size(group, sizes)), default=())
    outside = [group for group in rest if group is not rows]
    return Space((*outside, added, rows, cols), sizes, is_flat=False, has_total=True)
