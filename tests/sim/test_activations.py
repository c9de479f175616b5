"""Activation functions against the standard library's doubles."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from nki_agent.isa.ops import ACTIVATIONS
from nki_agent.sim.activations import FUNCTIONS, PARAMETRIC
from tests.sim.build import Array

ULP = 2.0**-23


def phi(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def cdf(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def slope(x: float, factor: float) -> float:
    s = logistic(factor * x)
    return s + factor * x * s * (1 - s)


REFERENCE: dict[str, Callable[[float], float]] = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "sigmoid": logistic,
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * cdf(x),
    "gelu_dx": lambda x: cdf(x) + x * phi(x),
    "gelu_apprx_tanh": lambda x: x * logistic(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)),
    "gelu_apprx_sigmoid": lambda x: x * logistic(1.702 * x),
    "gelu_apprx_sigmoid_dx": lambda x: slope(x, 1.702),
    "silu": lambda x: x * logistic(x),
    "silu_dx": lambda x: slope(x, 1.0),
    "tanh": math.tanh,
    "softplus": lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x))),
    "mish": lambda x: x * math.tanh(max(x, 0.0) + math.log1p(math.exp(-abs(x)))),
    "erf": math.erf,
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * math.exp(-x * x),
    "exp": math.exp,
    "sign": lambda x: float(x > 0) - float(x < 0),
    "abs": abs,
    "log": math.log,
    "sin": math.sin,
    "arctan": math.atan,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "reciprocal": lambda x: 1 / x,
}
POSITIVE_ONLY = ("log", "sqrt", "rsqrt")
# Where a sum of terms of unlike sign comes near zero, the error is of the size of the terms.
CANCELLING = ("gelu_dx", "silu_dx", "gelu_apprx_sigmoid_dx", "sin")
SIN_SPAN = 3.14
# Tails come from exp of a large product, whose rounding the exponential magnifies.
ULPS = {"erf_dx": 48, "gelu": 48, "gelu_apprx_tanh": 48, "gelu_apprx_sigmoid": 16}


def apply(name: str, x: Array) -> Array:
    function, out = FUNCTIONS[name], np.empty_like(x)
    work = tuple(np.empty_like(x) for _ in range(function.work))
    with np.errstate(all="ignore"):
        if work:
            function.apply(x, out, work)
        else:
            function.apply(x, out)
    return out


def test_every_function_is_there() -> None:
    assert FUNCTIONS.keys() == REFERENCE.keys()
    assert {*FUNCTIONS, *PARAMETRIC} == ACTIVATIONS.keys()


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_function_is_within_a_few_last_places(name: str) -> None:
    grid = np.concatenate([np.linspace(-8, 8, 4001), 10.0 ** np.linspace(-20, 1, 99)])
    grid = np.concatenate([grid, -grid])
    grid = grid[grid > 0] if name in POSITIVE_ONLY else grid[grid != 0]
    if name == "sin":
        grid = grid[np.abs(grid) < SIN_SPAN]
    x = grid.astype(np.float32).reshape(1, -1)
    wanted = np.array([[REFERENCE[name](float(value)) for value in x[0]]])
    size = np.abs(wanted)
    if name in CANCELLING:
        size = np.maximum(size, 1.0)
    error = np.abs(apply(name, x) - wanted)
    assert float((error / np.maximum(size, 1e-30)).max()) <= ULPS.get(name, 4) * ULP


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_nan_stays_nan(name: str) -> None:
    x = np.full((1, 3), np.nan, np.float32)
    assert bool(np.isnan(apply(name, x)).all())


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_output_may_be_the_input(name: str) -> None:
    x = np.linspace(0.1, 3, 50, dtype=np.float32).reshape(5, 10)
    wanted = apply(name, x)
    function = FUNCTIONS[name]
    work = tuple(np.empty_like(x) for _ in range(function.work))
    function.apply(x, x, *((work,) if work else ()))
    assert x.tolist() == wanted.tolist()


def test_limits_at_infinity() -> None:
    x = np.array([[np.inf, -np.inf]], np.float32)
    for name in ("gelu", "silu", "mish", "gelu_apprx_sigmoid", "gelu_apprx_tanh"):
        assert apply(name, x).tolist() == [[np.inf, 0.0]]
    assert apply("erf", x).tolist() == [[1.0, -1.0]]
    assert apply("sigmoid", x).tolist() == [[1.0, 0.0]]
    assert apply("gelu_dx", x).tolist() == [[1.0, 0.0]]
    assert apply("softplus", x).tolist() == [[np.inf, 0.0]]


def test_sin_leaves_its_range_on_a_cubic() -> None:
    assert apply("sin", np.array([[9.0, -9.0]], np.float32)).tolist() == [
        pytest.approx([27.65, -27.65], abs=0.01)
    ]
