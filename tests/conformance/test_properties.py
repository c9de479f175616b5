"""Laws over random kernels: views equal NumPy's; the trusted check finds what the tracer does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Memory
from nki_agent.nki.current import emit
from nki_agent.nki.current.allocation import whole_view
from nki_agent.nki.current.tensor import NkiTensor
from nki_agent.program.validate import check_program
from tests.kernels import f32, traced
from tests.nki.test_isa_calls import REFUSED_BY_RULES, refused_source

CHIP = load_chip(Target.TRN2)
Array = NDArray[Any]
SIZES = st.integers(1, 6)


def elements(view: NkiTensor) -> Array:
    """The storage element that each position of a view shows."""
    indices = np.full(view.shape, view.offset, dtype=np.int64)
    for axis, stride in enumerate(view.strides):
        shape = [1] * view.ndim
        shape[axis] = view.shape[axis]
        indices += stride * np.arange(view.shape[axis]).reshape(shape)
    return indices


@st.composite
def steps(draw: st.DrawFn) -> tuple[tuple[int, ...], bool, list[tuple[Any, ...]]]:
    """A shape, whether it is on chip, and view operations that its shape allows."""
    on_chip = draw(st.booleans())
    shape = draw(st.lists(SIZES, min_size=2, max_size=4).map(tuple))
    current, found = list(shape), []
    for _ in range(draw(st.integers(1, 4))):
        step = draw_step(draw, current, on_chip=on_chip)
        if step is not None:
            found.append(step)
    return shape, on_chip, found


def draw_step(draw: st.DrawFn, shape: list[int], *, on_chip: bool) -> tuple[Any, ...] | None:
    """One operation, with `shape` changed to its result's; None where it does not apply."""
    first = 1 if on_chip else 0
    kind = draw(st.sampled_from(["slice", "permute", "expand", "squeeze", "broadcast", "split"]))
    if kind == "slice":
        keys = []
        for axis, size in enumerate(shape):
            low = draw(st.integers(0, size - 1))
            high = draw(st.integers(low + 1, size))
            keys.append(slice(low, high, draw(st.integers(1, 2))))
            shape[axis] = len(range(*keys[-1].indices(size)))
        return ("slice", tuple(keys))
    if kind == "permute":
        order = [*range(first), *draw(st.permutations(range(first, len(shape))))]
        shape[:] = [shape[d] for d in order]
        return ("permute", tuple(order))
    if kind == "expand" and len(shape) < 5:
        axis = draw(st.integers(first, len(shape)))
        shape.insert(axis, 1)
        return ("expand", axis)
    ones = [d for d in range(first, len(shape)) if shape[d] == 1]
    if kind == "squeeze" and ones and len(shape) > 2:
        axis = draw(st.sampled_from(ones))
        del shape[axis]
        return ("squeeze", axis)
    if kind == "broadcast" and ones:
        axis, size = draw(st.sampled_from(ones)), draw(SIZES)
        shape[axis] = size
        return ("broadcast", axis, size)
    even = [d for d in range(first, len(shape)) if shape[d] % 2 == 0]
    if kind == "split" and even and len(shape) < 5:
        axis = draw(st.sampled_from(even))
        shape[axis : axis + 1] = [2, shape[axis] // 2]
        return ("split", axis)
    return None


def apply(view: NkiTensor, array: Array, step: tuple[Any, ...]) -> tuple[NkiTensor, Array]:
    """The same operation on both."""
    match step:
        case ("slice", keys):
            return view[keys], array[keys]
        case ("permute", order):
            return view.permute(order), array.transpose(order)
        case ("expand", axis):
            return view.expand_dim(axis), np.expand_dims(array, axis)
        case ("squeeze", axis):
            return view.squeeze_dim(axis), array.squeeze(axis)
        case ("broadcast", axis, size):
            wide = (*array.shape[:axis], size, *array.shape[axis + 1 :])
            return view.broadcast(axis, size), np.broadcast_to(array, wide)
        case ("split", axis):
            size = array.shape[axis] // 2
            shape = (*array.shape[:axis], 2, size, *array.shape[axis + 1 :])
            return view.reshape_dim(axis, (2, size)), array.reshape(shape)
        case _:
            raise AssertionError(step)


@settings(max_examples=300, deadline=None)
@given(steps())
def test_view_equals_the_numpy_view(
    case: tuple[tuple[int, ...], bool, list[tuple[Any, ...]]],
) -> None:
    shape, on_chip, operations = case
    memory = Memory.SBUF if on_chip else Memory.HBM
    view = whole_view(0, "t", memory, shape, DType.FLOAT32)
    array: Array = np.arange(int(np.prod(shape))).reshape(shape)
    for step in operations:
        view, array = apply(view, array, step)
        assert view.shape == array.shape
        np.testing.assert_array_equal(elements(view), array)


@pytest.mark.parametrize(("call", "code"), REFUSED_BY_RULES)
def test_trusted_check_finds_what_the_tracer_finds(
    call: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emit, "check_call", lambda _call: [])
    program = traced(refused_source(call), [f32("x", 256, 64)])
    assert check_program(program, CHIP)[0].code == code
