"""Laws of the allocator, for any demand."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from nki_agent.memory.allocator import (
    NOBODY,
    Demand,
    Layout,
    _best_fit,
    _largest_first,
    _next_fit,
    _reuses,
    find_layout,
)

CAPACITY = 64
Row = tuple[int, int, int, int]


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    rows = draw(st.lists(st.tuples(st.integers(1, 24), st.integers(0, 30), st.integers(0, 12))))
    rows.sort(key=lambda row: row[1])
    return Demand(
        tensors=list(range(len(rows))),
        sizes=[size for size, _, _ in rows],
        first=[first for _, first, _ in rows],
        last=[first + life for _, first, life in rows],
        fixed=[NOBODY] * len(rows),
    )


def clashes(demand: Demand, starts: list[int]) -> list[tuple[int, int]]:
    spans = list(zip(starts, demand.sizes, demand.first, demand.last, strict=True))
    return [
        (i, j)
        for i, (s, n, f, e) in enumerate(spans)
        for j, (t, m, g, h) in enumerate(spans[:i])
        if s < t + m and t < s + n and f <= h and g <= e
    ]


@settings(max_examples=300)
@given(demands())
def test_live_tensors_never_overlap_and_stay_inside(demand: Demand) -> None:
    for place in (_next_fit, _best_fit, _largest_first, find_layout_starts):
        layout = place(demand, CAPACITY)
        starts = layout.starts if isinstance(layout, Layout) else layout
        if starts is None:
            continue
        assert clashes(demand, list(starts)) == []
        assert all(0 <= s <= CAPACITY - n for s, n in zip(starts, demand.sizes, strict=True))


def find_layout_starts(demand: Demand, capacity: int) -> Layout | None:
    return find_layout(demand, capacity=capacity)


@settings(max_examples=300)
@given(demands())
def test_reuses_name_exactly_the_last_owner_of_each_unit(demand: Demand) -> None:
    layout = find_layout(demand, capacity=CAPACITY)
    if layout is None:
        return
    owner = [NOBODY] * CAPACITY
    rows = zip(demand.tensors, layout.starts, demand.sizes, layout.reuses, strict=True)
    for tensor, start, size, reuses in rows:
        span = slice(start, start + size)
        assert sorted(reuses) == sorted(set(owner[span]) - {NOBODY})
        owner[span] = [tensor] * size


@settings(max_examples=200)
@given(demands())
def test_both_ways_to_find_reuses_agree(demand: Demand) -> None:
    layout = _next_fit(demand, CAPACITY)
    if layout is not None:
        assert [sorted(r) for r in layout.reuses] == [
            sorted(r) for r in _reuses(demand, layout.starts)
        ]


def test_place_is_found_where_going_round_leaves_only_pieces() -> None:
    # Going round puts a small one in the middle; both sides are too small for the last.
    demand = Demand(
        tensors=[0, 1, 2, 3],
        sizes=[24, 8, 32, 56],
        first=[0, 1, 2, 10],
        last=[0, 20, 3, 11],
        fixed=[NOBODY] * 4,
    )
    assert _next_fit(demand, CAPACITY) is None
    layout = find_layout(demand, capacity=CAPACITY)
    assert layout is not None
    assert clashes(demand, list(layout.starts)) == []


@pytest.mark.parametrize("count", [0, 1])
def test_few_tensors_are_placed_from_the_start(count: int) -> None:
    demand = Demand(
        tensors=[5] * count,
        sizes=[4] * count,
        first=[0] * count,
        last=[1] * count,
        fixed=[-1] * count,
    )
    layout = find_layout(demand, capacity=CAPACITY)
    assert layout == Layout(starts=[0] * count, reuses=[()] * count)
