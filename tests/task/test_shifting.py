"""Rows of an input are found by shifting parts of it."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nki_agent.base.seeds import rng_for
from nki_agent.task.shifting import draw_sides, find_free_axes, ignores_shift

Array = NDArray[Any]
SHAPE = (6, 8, 10)


def softmax(x: Array) -> Array:
    exps = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(exps / exps.sum(-1, keepdims=True))


FREE: dict[str, tuple[Callable[[Array], Array], tuple[int, ...]]] = {
    "softmax": (softmax, (0, 1)),
    "largest of the middle axis": (lambda x: x.max(1), (0, 2)),
    "largest of two axes": (lambda x: x.max((0, 2)), (1,)),
    "largest of all": (lambda x: x.max(keepdims=True), ()),
    "place of the largest": (lambda x: x.argmax(-1), (0, 1)),
    "order": (lambda x: np.sort(x, 0), (1, 2)),
    "copy": (lambda x: x, (0, 1, 2)),
}


@pytest.mark.parametrize("name", FREE)
def test_rows_are_the_places_that_do_not_meet_in_a_result(name: str) -> None:
    function, axes = FREE[name]
    inputs = {"x": rng_for(0, name).normal(size=SHAPE)}

    def run(values: Mapping[str, Array]) -> dict[str, Array]:
        return {"y": function(values["x"])}

    wanted = run(inputs)
    assert ignores_shift(run, inputs, wanted, name="x", passes=True)
    assert find_free_axes(run, inputs, wanted, name="x") == axes


def test_shift_that_passes_is_no_shift_that_is_ignored() -> None:
    inputs = {"x": rng_for(0, "passes").normal(size=SHAPE)}

    def run(values: Mapping[str, Array]) -> dict[str, Array]:
        return {"y": softmax(values["x"]), "z": values["x"].max(-1)}

    wanted = run(inputs)
    assert ignores_shift(run, inputs, wanted, name="x", passes=True)
    assert not ignores_shift(run, inputs, wanted, name="x", passes=False)


@pytest.mark.parametrize(
    ("axes", "grid", "num_below"),
    [((), (1, 1, 1), 1), ((0,), (6, 1, 1), 3), ((1, 2), (1, 8, 10), 40)],
)
def test_half_of_the_rows_or_the_only_one_is_below(
    axes: tuple[int, ...], grid: tuple[int, ...], num_below: int
) -> None:
    below = draw_sides(SHAPE, axes, rng_for(0, "sides"))
    assert below.shape == grid
    assert below.sum() == num_below
