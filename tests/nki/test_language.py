"""The functions of `nki.language` against NumPy, through the simulator."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, pi, sqrt
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.chip.spec import Target
from tests.kernels import body, f32, refused
from tests.running import run_kernel

Array = NDArray[Any]
RNG = np.random.Generator(np.random.SFC64(7))
REAL = RNG.uniform(-3, 3, (4, 48)).astype(np.float32)
OTHER = RNG.uniform(-3, 3, (4, 48)).astype(np.float32)
POSITIVE = RNG.uniform(0.1, 4, (4, 48)).astype(np.float32)
SMALL = RNG.uniform(-1.5, 1.5, (4, 48)).astype(np.float32)
WORDS = RNG.integers(0, 1 << 16, (4, 48)).astype(np.int32)
SHIFTS = RNG.integers(0, 12, (4, 48)).astype(np.int32)
BITS = RNG.integers(0, 2, (4, 48)).astype(np.float32)

ERF: Callable[[Array], Array] = np.vectorize(erf, otypes=[np.float64])


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def normal(x: Array) -> Array:
    return np.exp(-x * x / 2) / sqrt(2 * pi)


def phi(x: Array) -> Array:
    return np.asarray(0.5 * (1 + ERF(x / sqrt(2))))


def softplus(x: Array) -> Array:
    return np.log1p(np.exp(x))


UNARY: dict[str, tuple[Callable[[Array], Array], Array]] = {
    "abs": (np.abs, REAL),
    "square": (np.square, REAL),
    "negative": (np.negative, REAL),
    "sign": (np.sign, REAL),
    "reciprocal": (np.reciprocal, POSITIVE),
    "copy": (np.copy, REAL),
    "exp": (np.exp, REAL),
    "log": (np.log, POSITIVE),
    "sqrt": (np.sqrt, POSITIVE),
    "rsqrt": (lambda x: 1 / np.sqrt(x), POSITIVE),
    "tanh": (np.tanh, REAL),
    "sigmoid": (sigmoid, REAL),
    "relu": (lambda x: np.maximum(x, 0), REAL),
    "gelu": (lambda x: x * phi(x), REAL),
    "gelu_dx": (lambda x: phi(x) + x * normal(x), REAL),
    "gelu_apprx_sigmoid": (lambda x: x * sigmoid(1.702 * x), REAL),
    "gelu_apprx_sigmoid_dx": (
        lambda x: sigmoid(1.702 * x) * (1 + 1.702 * x * (1 - sigmoid(1.702 * x))),
        REAL,
    ),
    "gelu_apprx_tanh": (
        lambda x: 0.5 * x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))),
        REAL,
    ),
    "silu": (lambda x: x * sigmoid(x), REAL),
    "silu_dx": (lambda x: sigmoid(x) * (1 + x * (1 - sigmoid(x))), REAL),
    "softplus": (softplus, REAL),
    "mish": (lambda x: x * np.tanh(softplus(x)), REAL),
    "erf": (ERF, REAL),
    "erf_dx": (lambda x: 2 / sqrt(pi) * np.exp(-x * x), REAL),
    "sin": (np.sin, REAL),
    "arctan": (np.arctan, SMALL),
    "logical_not": (lambda x: (x == 0).astype(np.float32), BITS),
}
# fmt: off
UNARY_CALLS = [
    "nl.abs", "nl.square", "nl.negative", "nl.sign", "nl.reciprocal", "nl.copy", "nl.exp",
    "nl.log", "nl.sqrt", "nl.rsqrt", "nl.tanh", "nl.sigmoid", "nl.relu", "nl.gelu",
    "nl.gelu_dx", "nl.gelu_apprx_sigmoid", "nl.gelu_apprx_sigmoid_dx", "nl.gelu_apprx_tanh",
    "nl.silu", "nl.silu_dx", "nl.softplus", "nl.mish", "nl.erf", "nl.erf_dx", "nl.sin",
    "nl.arctan", "nl.logical_not",
]
# fmt: on

BINARY: dict[str, tuple[Callable[[Array, Array], Array], Array, Array]] = {
    "add": (np.add, REAL, OTHER),
    "subtract": (np.subtract, REAL, OTHER),
    "multiply": (np.multiply, REAL, OTHER),
    "maximum": (np.maximum, REAL, OTHER),
    "minimum": (np.minimum, REAL, OTHER),
    "power": (np.power, POSITIVE, OTHER),
    "equal": (np.equal, BITS, BITS[::-1]),
    "not_equal": (np.not_equal, BITS, BITS[::-1]),
    "less": (np.less, REAL, OTHER),
    "less_equal": (np.less_equal, REAL, OTHER),
    "greater": (np.greater, REAL, OTHER),
    "greater_equal": (np.greater_equal, REAL, OTHER),
    "logical_and": (np.logical_and, BITS, BITS[::-1]),
    "logical_or": (np.logical_or, BITS, BITS[::-1]),
    "logical_xor": (np.logical_xor, BITS, BITS[::-1]),
    "bitwise_and": (np.bitwise_and, WORDS, WORDS[::-1]),
    "bitwise_or": (np.bitwise_or, WORDS, WORDS[::-1]),
    "bitwise_xor": (np.bitwise_xor, WORDS, WORDS[::-1]),
    "left_shift": (np.left_shift, WORDS, SHIFTS),
    "right_shift": (np.right_shift, WORDS, SHIFTS),
}
# fmt: off
BINARY_CALLS = [
    "nl.add", "nl.subtract", "nl.multiply", "nl.maximum", "nl.minimum", "nl.power",
    "nl.equal", "nl.not_equal", "nl.less", "nl.less_equal", "nl.greater",
    "nl.greater_equal", "nl.logical_and", "nl.logical_or", "nl.logical_xor",
    "nl.bitwise_and", "nl.bitwise_or", "nl.bitwise_xor", "nl.left_shift", "nl.right_shift",
]
# fmt: on


def one_tile(call: str, *, shape: str = "v.shape", dtype: str = "v.dtype") -> str:
    """A kernel that returns the tile `call` of loaded tiles `a` and `b`."""
    return body(
        f"a = nl.load(x)\nb = nl.load(y)\nv = {call}\n"
        "if v.buffer == nl.psum:\n    v = nl.copy(v)\n"
        f"out = nl.ndarray({shape}, dtype={dtype}, buffer=nl.shared_hbm)\n"
        "nl.store(out, v)\nreturn out",
        params="x, y",
    )


@pytest.mark.parametrize("call", UNARY_CALLS)
def test_function_of_one_tile_equals_numpy(call: str) -> None:
    function, x = UNARY[call.removeprefix("nl.")]
    found = run_kernel(one_tile(f"{call}(a)"), x=x, y=x)
    wanted = function(x.astype(np.float64))
    np.testing.assert_allclose(found, wanted, rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("call", BINARY_CALLS)
def test_function_of_two_tiles_equals_numpy(call: str) -> None:
    function, x, y = BINARY[call.removeprefix("nl.")]
    y = np.ascontiguousarray(y)
    found = run_kernel(one_tile(f"{call}(a, b)"), x=x, y=y)
    np.testing.assert_allclose(found, function(x, y).astype(found.dtype), rtol=3e-6, atol=3e-6)


def test_number_may_stand_on_either_side() -> None:
    found = run_kernel(one_tile("nl.subtract(1.0, nl.multiply(a, 2.0))"), x=REAL, y=REAL)
    np.testing.assert_allclose(found, 1 - 2 * REAL, rtol=1e-6)


def test_abs_max_and_abs_min_keep_the_sign_on_trn3() -> None:
    for call, pick in (("nl.abs_max(a, b)", np.greater), ("nl.abs_min(a, b)", np.less)):
        found = run_kernel(one_tile(call), target=Target.TRN3, x=REAL, y=OTHER)
        wanted = np.where(pick(np.abs(REAL), np.abs(OTHER)), REAL, OTHER)
        np.testing.assert_array_equal(found, wanted)


def test_invert_flips_every_bit() -> None:
    np.testing.assert_array_equal(run_kernel(one_tile("nl.invert(a)"), x=WORDS, y=WORDS), ~WORDS)


@pytest.mark.parametrize(
    ("call", "function"),
    [
        ("nl.sum(a, 1)", lambda x: x.sum(1, keepdims=True)),
        ("nl.sum(a, axis=-1, keepdims=True)", lambda x: x.sum(1, keepdims=True)),
        ("nl.max(a, 1)", lambda x: x.max(1, keepdims=True)),
        ("nl.min(a, [1])", lambda x: x.min(1, keepdims=True)),
        ("nl.prod(a, 1)", lambda x: x.prod(1, keepdims=True)),
        ("nl.mean(a, 1)", lambda x: x.mean(1, keepdims=True)),
        ("nl.var(a, 1)", lambda x: x.var(1, keepdims=True)),
        ("nl.all(a, 1)", lambda x: x.all(1, keepdims=True)),
        ("nl.sum(a.reshape((4, 6, 8)), 2)", lambda x: x.reshape(4, 6, 8).sum(2)),
        ("nl.max(a.reshape((4, 6, 8)), [1, 2])", lambda x: x.max(1, keepdims=True)),
        ("nl.softmax(a)", lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
        (
            "nl.rms_norm(a, b, axis=1, n=48, epsilon=0.5)",
            lambda x: x / np.sqrt((x * x).mean(1, keepdims=True) + 0.5) * x,
        ),
        ("nl.where(nl.greater(a, 0.0), a, nl.negative(a))", np.abs),
        ("nl.zeros_like(a)", np.zeros_like),
        ("nl.add(nl.ones((4, 48), nl.float32), a)", lambda x: x + 1),
        ("nl.full((4, 48), 2.5, nl.float32)", lambda x: np.full_like(x, 2.5)),
        ("nl.broadcast_to(a[:, 0:1], (4, 48))", lambda x: np.broadcast_to(x[:, :1], x.shape)),
        ("nl.copy(nl.expand_dims(a, 1)).reshape((4, 48))", np.copy),
        ("nl.transpose(a)", np.transpose),
        ("nl.matmul(a, nl.copy(nl.transpose(b)))", lambda x: x @ x.T),
        ("nl.matmul(a, b, transpose_x=True)", lambda x: x.T @ x),
    ],
)
def test_function_of_a_tile_equals_numpy(call: str, function: Callable[[Array], Array]) -> None:
    found = run_kernel(one_tile(call), x=REAL, y=REAL)
    np.testing.assert_allclose(found, function(REAL.astype(np.float64)), rtol=2e-5, atol=1e-5)


def test_dtype_argument_names_the_result() -> None:
    found = run_kernel(one_tile("nl.exp(a, dtype=nl.bfloat16)"), x=REAL, y=REAL)
    assert found.dtype.name == "bfloat16"
    np.testing.assert_allclose(found.astype(np.float64), np.exp(REAL), rtol=5e-3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("nl.load(a)", "`src` of `nl.load` is sbuf, but the limit is hbm"),
        ("nl.load_transpose2d(a)", "nl.load_transpose2d"),
        ("nl.store(b, a)", "`dst` of `nl.store` is sbuf"),
        ("nl.store(x, y)", "`value` of `nl.store` is hbm, but the limit is sbuf"),
    ],
)
def test_loads_and_stores_cross_between_hbm_and_sbuf(call: str, words: str) -> None:
    finding = refused(one_tile(call), [f32("x", 4, 48), f32("y", 4, 48)])
    assert finding.code == "NK301"
    assert words in str(finding)
    assert msgspec.json.decode(msgspec.json.encode(finding), type=Diagnostic) == finding


def test_swapped_store_says_what_comes_first() -> None:
    finding = refused(one_tile("nl.store(a, x)"), [f32("x", 4, 48), f32("y", 4, 48)])
    assert finding.code == "NK301"
    assert "the HBM view comes first" in finding.hint


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(
    "call",
    ["nl.load_transpose2d(x{})", "nl.transpose(a{})", "nl.transpose(nl.copy(a){})"],
)
@pytest.mark.parametrize("cast", ["", ", dtype=nl.float32", ", dtype=nl.float16"])
def test_transposes_keep_or_cast_values(dtype: type, call: str, cast: str) -> None:
    x: Array = REAL.astype(dtype)
    found = run_kernel(one_tile(call.format(cast)), x=x, y=x)
    np.testing.assert_array_equal(found, x.T.astype(cast[-7:].strip(".") if cast else dtype))


def test_ranges_are_those_of_python() -> None:
    text = (
        "count = 0\n"
        "for i in nl.affine_range(3):\n    count += i\n"
        "for i in nl.sequential_range(1, 4):\n    count += i\n"
        "for i in nl.static_range(0, 10, 5):\n    count += i\n"
        "assert count == 14\n"
        "assert nl.num_programs() == 1 and nl.program_id(0) == 0 and nl.program_ndim() == 0\n"
        "assert nl.is_sbuf(nl.sbuf) and nl.is_psum(nl.psum) and nl.is_hbm(nl.hbm)\n"
        "assert nl.is_on_chip(nl.psum) and not nl.is_on_chip(nl.shared_hbm)\n"
        "t = nl.empty_like(nl.load(x))\nnisa.memset(dst=t, value=1.0)\n"
        "out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "nl.store(out, t)\nreturn out"
    )
    assert run_kernel(body(text), x=REAL).sum() == REAL.size


def test_shared_constant_and_identity_are_data_of_the_program() -> None:
    text = (
        "c = nl.load(nl.shared_constant(np.arange(4, dtype=np.float32).reshape(4, 1)))\n"
        "i = nl.shared_identity_matrix(4, dtype=nl.float32)\n"
        "t = nl.ndarray((4, 4), dtype=nl.float32)\n"
        "nisa.tensor_scalar(dst=t, data=i, op0=nl.multiply, operand0=c)\n"
        "out = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)\n"
        "nl.store(out, t)\nreturn out"
    )
    np.testing.assert_array_equal(run_kernel(body(text), x=REAL), np.diag(np.arange(4.0)))
