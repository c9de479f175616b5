"""A lane against a picture of time in small steps."""

from hypothesis import given
from hypothesis import strategies as st

from nki_agent.cost.lane import Lane

jobs = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=25)


@given(jobs)
def test_fill_takes_the_first_free_time(work: list[tuple[int, int]]) -> None:
    lane, taken = Lane(), set[int]()
    for ready, length in work:
        free = [t for t in range(ready, 600) if t not in taken][:length]
        taken.update(free)
        assert lane.fill(float(ready), float(length)) == (free[0], free[-1] + 1)
    assert lane.busy_ns == len(taken)


@given(jobs)
def test_gap_is_the_first_that_is_long_enough(work: list[tuple[int, int]]) -> None:
    lane, taken = Lane(), set[int]()
    for ready, length in work:
        wanted = next(t for t in range(ready, 600) if not taken & set(range(t, t + length)))
        begin = lane.find_gap(float(ready), float(length))
        assert begin == wanted
        lane.fill(begin, float(length))
        taken.update(range(wanted, wanted + length))


def test_work_that_fits_but_for_rounding_stays_in_its_gap() -> None:
    lane = Lane()
    lane.fill(0.3, 10.0)
    assert lane.fill(0.0, 0.1 + 0.2)[1] <= 0.3 + 1e-6
