"""Shapes in which access patterns are walked together, against plain index arithmetic."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nki_agent.sim.axes import Axes, count_elements, find_common_shape, merge_axes, split_axes

AXES = st.lists(
    st.tuples(st.integers(-12, 12).map(lambda n: 4 * n), st.integers(1, 4)), min_size=1, max_size=4
).map(tuple)


def offsets(axes: Axes) -> list[int]:
    """Byte offsets of all elements in order."""
    total = np.zeros((), np.int64)
    for stride, count in axes:
        total = total[..., None] + stride * np.arange(count)
    return [int(n) for n in total.reshape(-1)]


@given(AXES)
def test_merging_keeps_the_walk(axes: Axes) -> None:
    assert offsets(merge_axes(axes)) == offsets(axes)


@given(AXES, AXES)
def test_a_common_shape_keeps_both_walks(first: Axes, second: Axes) -> None:
    if count_elements(first) != count_elements(second):
        return
    shape = find_common_shape([first, second])
    if shape is None:
        return
    for axes in (first, second):
        strides = split_axes(axes, shape)
        assert strides is not None
        assert offsets(tuple(zip(strides, shape, strict=True))) == offsets(axes)


@given(AXES)
def test_the_kept_axis_stays_first(axes: Axes) -> None:
    free = count_elements(axes[1:])
    shape = find_common_shape([axes], keep=free)
    assert shape is not None
    assert shape[0] == axes[0][1]
    assert len(shape) > 1
    strides = split_axes(axes, shape)
    assert strides is not None
    assert offsets(tuple(zip(strides, shape, strict=True))) == offsets(axes)


def test_shapes_that_cross_have_no_common_shape() -> None:
    first, second = ((100, 2), (8, 3)), ((100, 3), (8, 2))
    assert find_common_shape([first, second]) is None


def test_axes_do_not_split_across_a_gap() -> None:
    assert split_axes(((100, 4), (4, 6)), (3, 8)) is None
    assert split_axes(((100, 4), (4, 6)), (2, 2, 6)) == (200, 100, 4)
