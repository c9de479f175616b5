"""A loop nest reads the elements that NumPy's views read."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from nki_agent.base.seeds import rng_for
from nki_agent.corpus.strides import Reading, align, compose, merge, merge_together, read_view

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def elements(reading: Reading) -> list[int]:
    loops = [loop for axis in reading.axes for loop in axis]
    ranges = [range(size) for size, _ in loops]
    return [
        reading.offset + sum(i * step for i, (_, step) in zip(place, loops, strict=True))
        for place in itertools.product(*ranges)
    ]


def view_at_random(array: np.ndarray, seed: int) -> np.ndarray:
    """Some transposes, slices, splits and broadcasts of an array."""
    rng = rng_for(seed, "view")
    for _ in range(int(rng.integers(1, 4))):
        array = array.transpose(rng.permutation(array.ndim))
        axis = int(rng.integers(array.ndim))
        size = array.shape[axis]
        match int(rng.integers(4)):
            case 0 if size > 1:
                start = int(rng.integers(size - 1))
                array = np.take(array, [0], axis) if start > size else _slice(array, axis, start)
            case 1 if size % 2 == 0:
                array = _split(array, axis)
            case 2 if array.ndim < 5:
                array = np.broadcast_to(array, (2, *array.shape))
            case _:
                pass
    return array


def _slice(array: np.ndarray, axis: int, start: int) -> np.ndarray:
    index = [slice(None)] * array.ndim
    index[axis] = slice(start, None, 2 if start % 2 else 1)
    return array[tuple(index)]


def _split(array: np.ndarray, axis: int) -> np.ndarray:
    shape = [*array.shape[:axis], array.shape[axis] // 2, 2, *array.shape[axis + 1 :]]
    strides = [
        *array.strides[:axis],
        array.strides[axis] * 2,
        array.strides[axis],
        *array.strides[axis + 1 :],
    ]
    return as_strided(array, shape, strides)


def reading_of(view: np.ndarray, base: np.ndarray) -> Reading:
    steps = [stride // base.itemsize for stride in view.strides]
    start = view.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return read_view(view.shape, steps, start // base.itemsize)


@given(SHAPES, st.integers(0, 10_000))
def test_merged_loops_read_the_same_elements(shape: tuple[int, ...], seed: int) -> None:
    base = np.arange(math.prod(shape)).reshape(shape)
    view = view_at_random(base, seed)
    reading = reading_of(view, base)
    assert elements(reading) == view.ravel().tolist()
    merged = merge([loop for axis in reading.axes for loop in axis])
    assert elements(Reading((merged,), reading.offset)) == view.ravel().tolist()


@given(SHAPES, st.integers(0, 10_000), st.integers(0, 10_000))
def test_reading_through_a_move_reads_what_was_moved(
    shape: tuple[int, ...], seed: int, other: int
) -> None:
    base = np.arange(math.prod(shape)).reshape(shape)
    moved_view = view_at_random(base, seed)
    inner = reading_of(moved_view, base)
    loops = [loop for axis in inner.axes for loop in axis]
    moved = np.ascontiguousarray(moved_view)
    outer_view = view_at_random(moved, other)
    outer = reading_of(outer_view, moved)
    found = compose(outer, [s for s, _ in loops], [t for _, t in loops], inner.offset)
    if found is not None:
        assert elements(found) == outer_view.ravel().tolist()


def test_reading_through_a_transpose_and_back_is_reading_in_order() -> None:
    back = Reading((((6, 1),), ((10, 6),)))
    found = compose(back, [10, 6], [1, 10], 0)
    assert found == Reading((((6, 10),), ((10, 1),)))


def test_loop_that_does_not_fall_apart_is_not_read_through() -> None:
    assert compose(Reading((((4, 1),),)), [2, 3], [1, 2], 0) is None


def test_loops_of_one_number_of_elements_are_cut_alike() -> None:
    sizes, (left, right) = align([((12, 1),), ((3, 100), (4, 7))]) or ((), ((), ()))
    assert sizes == (3, 4)
    assert (left, right) == ((4, 1), (100, 7))
    assert align([((2, 1), (3, 5)), ((3, 1), (2, 9))]) is None


def test_loops_are_merged_only_where_all_readings_run_on() -> None:
    assert merge_together([3, 4], [[4, 1], [8, 2]]) == ((12,), ((1,), (2,)))
    assert merge_together([3, 4], [[4, 1], [0, 2]]) == ((3, 4), ((4, 1), (0, 2)))
