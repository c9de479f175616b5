"""Views against the sets of bytes that they touch."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from nki_agent.isa.signature import Pattern
from nki_agent.program.overlap import Form, is_covering, is_overlapping, make_form

ITEMSIZE = 4
ROW_BYTES = 64


def touched(pattern: Pattern, offset: int) -> set[tuple[int, int]]:
    start, step, count = pattern.partition or (0, 1, 1)
    partitions = range(start, start + step * count, step)
    places = product(*(range(n) for _, n in pattern.free))
    bytes_ = {
        offset + sum(i * s for i, (s, _) in zip(place, pattern.free, strict=True)) + byte
        for place in places
        for byte in range(ITEMSIZE)
    }
    return set(product(partitions, bytes_))


axes = st.lists(
    st.tuples(st.integers(-6, 6).map(lambda n: 4 * n), st.integers(1, 4)), max_size=3
).map(tuple)
partitions = st.one_of(
    st.none(), st.tuples(st.integers(0, 4), st.integers(1, 3), st.integers(1, 4))
)
patterns = st.builds(Pattern, partitions, axes)
offsets = st.integers(0, 24).map(lambda n: 4 * n)


@given(patterns, patterns, offsets, offsets)
def test_views_overlap_when_they_share_a_byte(
    first: Pattern, second: Pattern, first_offset: int, second_offset: int
) -> None:
    shared = touched(first, first_offset) & touched(second, second_offset)
    assert bool(shared) == is_overlapping(
        make_form(first, ITEMSIZE),
        make_form(second, ITEMSIZE),
        first_offset=first_offset,
        second_offset=second_offset,
    )


@given(patterns, patterns, offsets, offsets)
def test_a_view_said_to_cover_another_touches_all_of_it(
    first: Pattern, second: Pattern, first_offset: int, second_offset: int
) -> None:
    covers = is_covering(
        make_form(first, ITEMSIZE),
        make_form(second, ITEMSIZE),
        first_offset=first_offset,
        second_offset=second_offset,
    )
    if covers:
        assert touched(second, second_offset) <= touched(first, first_offset)


def tile(rows: int, columns: int) -> Form:
    return make_form(Pattern(None, ((ROW_BYTES, rows), (ITEMSIZE, columns))), ITEMSIZE)


@given(
    st.tuples(st.integers(1, 4), st.integers(1, 8)),
    st.tuples(st.integers(1, 4), st.integers(1, 8)),
    st.tuples(st.integers(0, 4), st.integers(0, 8)),
    st.tuples(st.integers(0, 4), st.integers(0, 8)),
)
def test_cover_is_exact_for_tiles_of_a_row_major_tensor(
    shape: tuple[int, int], other: tuple[int, int], at: tuple[int, int], other_at: tuple[int, int]
) -> None:
    inside = all(
        a <= b and b + n <= a + m for a, b, m, n in zip(at, other_at, shape, other, strict=True)
    )
    assert inside == is_covering(
        tile(*shape),
        tile(*other),
        first_offset=at[0] * ROW_BYTES + at[1] * ITEMSIZE,
        second_offset=other_at[0] * ROW_BYTES + other_at[1] * ITEMSIZE,
    )


def test_neighbouring_column_tiles_do_not_overlap() -> None:
    left, right = tile(8, 4), tile(8, 4)
    assert not is_overlapping(left, right, second_offset=4 * ITEMSIZE)
    assert is_overlapping(left, right, second_offset=3 * ITEMSIZE)


def test_every_second_element_misses_the_others() -> None:
    every_second = make_form(Pattern((0, 1, 2), ((8, 16),)), ITEMSIZE)
    assert not is_overlapping(every_second, every_second, second_offset=4)
    assert is_overlapping(every_second, every_second, second_offset=8)


def test_broadcast_axes_touch_one_element() -> None:
    form = make_form(Pattern((0, 1, 4), ((0, 512), (4, 2))), ITEMSIZE)
    assert (form.run, form.steps, form.is_solid) == (8, (), True)


def test_a_search_without_end_counts_as_overlap() -> None:
    odd = make_form(Pattern(None, tuple((4 * p, 64) for p in (101, 211, 307, 401))), ITEMSIZE)
    even = make_form(Pattern(None, tuple((4 * p, 64) for p in (103, 223, 311, 409))), ITEMSIZE)
    assert is_overlapping(odd, even, second_offset=4)
