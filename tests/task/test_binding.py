from typing import Any, NamedTuple

import numpy as np

from nki_agent.task.binding import make_unique, name_outputs
from nki_agent.task.userfile import read_user_file
from tests.task.conftest import Write


class Pair(NamedTuple):
    first: Any
    second: Any


def test_names_become_different_identifiers() -> None:
    names = ["x", "norm.weight", "norm_weight", "0.bias", "class", "größe"]
    unique = make_unique(names, taken={"x"})
    assert unique == ["x_2", "norm_weight", "norm_weight_2", "_0_bias", "class_", "gr__e"]
    assert all(name.isidentifier() for name in unique)


def test_nested_results_are_flattened_in_order(write: Write) -> None:
    user = read_user_file(write("x = 1"))
    a, b, c = (np.full(2, value) for value in range(3))
    for result, names in (
        (a, ["output"]),
        ((a, (b, c)), ["output_0", "output_1", "output_2"]),
        ({"y": a, "state": (b, c)}, ["y_0", "state_1", "state_2"]),
        (Pair(a, b), ["first", "second"]),
        ([a, None], ["output"]),
    ):
        found = name_outputs(result, taken=frozenset(), may_be_none=False, user=user)
        assert list(found) == names


def test_numpy_scalar_is_an_output(write: Write) -> None:
    user = read_user_file(write("x = 1"))
    found = name_outputs(np.float32(3), taken=frozenset(), may_be_none=False, user=user)
    assert list(found) == ["output"]
