"""The Scalar Engine's functions on float32 tiles, within a few last places of the true value.

Law: `apply(x, out, work)` writes `out` once, last, so `out` may overlap `x`; NaN stays NaN.
`sin` leaves ±pi on the cubic by which the chip's table goes on there (sin(9) is about 27.65).
Not modelled: the chip's piece-wise polynomials, whose errors are not published, and what the other
functions give outside of their valid ranges: the true value is returned, and NK503 is reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Work = tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """One function; `work` contiguous float32 arrays of the tile's shape are lent to `apply`.

    Without work it is called as `apply(x, out)`.
    """

    apply: Callable[..., object]
    work: int = 0


def _f32(value: float | np.float32) -> Array:
    return np.array(value, np.float32)


_ZERO, _HALF, _ONE, _TWO, _INF = map(_f32, (0.0, 0.5, 1.0, 2.0, math.inf))
_LOWEST = _f32(np.finfo(np.float32).min)
_PI = _f32(math.pi)
_SIXTH = _f32(1 / 6)
_SQRT_HALF = _f32(math.sqrt(0.5))
_TWO_BY_SQRT_PI = _f32(2 / math.sqrt(math.pi))
_BY_SQRT_TWO_PI = _f32(1 / math.sqrt(2 * math.pi))
_GELU_SIGMOID = _f32(1.702)
_GELU_CUBIC = _f32(0.044715)
_GELU_TANH = _f32(2 * math.sqrt(2 / math.pi))
_MISH_LIMIT = _f32(20.0)
# The logistic function of -80 is 1e-35; its exponential does not overflow yet.
_LOGISTIC_LIMIT = _f32(80.0)
# Above 10 erfc is zero in float32; the bound keeps exp(-t * t) from t = infinity.
_ERFC_LIMIT = _f32(10.1)
# Past 20 the normal density is zero in float32.
_DENSITY_LIMIT = _f32(20.0)

# erf(x) / x as a polynomial in x * x on [0, 1], largest relative error 1.2e-9. Made by weighted
# least squares driven to the least largest error; the coefficients are rounded to float32 where
# they are used.
_ERF = tuple(
    map(
        _f32,
        (
            1.1283791659137499,
            -0.3761262713596565,
            0.11283600176254238,
            -0.026854444591750168,
            0.005189535338977466,
            -0.0008020841275955953,
            7.889119517183463e-05,
        ),
    )
)
# erfc(t) * exp(t * t) as a polynomial in (t - 2) / (t + 2) on [0, 10.1], largest relative error
# 3.3e-8.
_ERFC = tuple(
    map(
        _f32,
        (
            0.25539568119421513,
            -0.42718593971578755,
            0.24165794894997789,
            -0.0789760101433557,
            0.0037349380467048277,
            0.00697859350731158,
            -0.0008550739086587156,
            -0.0009273262490465031,
            6.363964026764347e-05,
            0.00010784925279137911,
        ),
    )
)


def _polynomial(x: Array, coefficients: tuple[Array, ...], out: Array) -> None:
    """Horner's rule; `out` must not overlap `x`."""
    np.multiply(x, coefficients[-1], out)
    for coefficient in coefficients[-2:0:-1]:
        np.add(out, coefficient, out)
        np.multiply(out, x, out)
    np.add(out, coefficients[0], out)


def _complement(t: Array, out: Array, work: Array) -> None:
    """Write erfc of t >= 0 to `out`; t is bounded in place."""
    np.clip(t, _ZERO, _ERFC_LIMIT, t)
    np.add(t, _TWO, out)
    np.subtract(t, _TWO, work)
    np.divide(work, out, work)
    _polynomial(work, _ERFC, out)
    np.multiply(t, t, work)
    np.negative(work, work)
    np.exp(work, work)
    np.multiply(out, work, out)


def _upper_tail(x: Array, size: Array, out: Array, work: Work) -> None:
    """The normal distribution's tail beyond |x| into `out`; |x| stays in `size`, bounded."""
    np.abs(x, size)
    np.clip(size, _ZERO, -_LOWEST, size)
    t, spare = work
    np.multiply(size, _SQRT_HALF, t)
    _complement(t, out, spare)
    np.multiply(out, _HALF, out)


def _one_less_polynomial() -> Array:
    total = np.empty(1, np.float32)
    _polynomial(np.ones(1, np.float32), _ERF, total)
    return np.subtract(_ONE, total).reshape(())


# erfc(1), such that erf of a large number comes out as 1 exactly.
_BEYOND_ONE = _one_less_polynomial()


def erf(x: Array, out: Array, work: Work) -> None:
    """The error function: c * (P(c * c) + erfc(1) - erfc(max(|x|, 1))), c being x within ±1."""
    bounded, total, t, tail, spare = work
    np.clip(x, -_ONE, _ONE, bounded)
    np.multiply(bounded, bounded, t)
    _polynomial(t, _ERF, total)
    np.add(total, _BEYOND_ONE, total)
    np.abs(x, t)
    np.clip(t, _ONE, _INF, t)
    _complement(t, tail, spare)
    np.subtract(total, tail, total)
    np.multiply(bounded, total, out)


def erf_dx(x: Array, out: Array, work: Work) -> None:
    """The derivative of the error function."""
    (t,) = work
    np.multiply(x, x, t)
    np.negative(t, t)
    np.exp(t, t)
    np.multiply(t, _TWO_BY_SQRT_PI, out)


def gelu(x: Array, out: Array, work: Work) -> None:
    """GELU, x * Phi(x), as max(x, 0) - |x| * (the normal distribution's tail beyond |x|)."""
    size, tail, t, spare = work
    _upper_tail(x, size, tail, (t, spare))
    np.multiply(size, tail, tail)
    np.clip(x, _ZERO, _INF, spare)
    np.subtract(spare, tail, out)


def gelu_dx(x: Array, out: Array, work: Work) -> None:
    """Phi(x) + x * phi(x)."""
    size, tail, t, spare = work
    _upper_tail(x, size, tail, (t, spare))
    np.greater(x, _ZERO, size)
    np.multiply(size, _TWO, t)
    np.subtract(t, _ONE, t)
    np.multiply(tail, t, tail)
    np.subtract(size, tail, tail)
    np.clip(x, -_DENSITY_LIMIT, _DENSITY_LIMIT, size)
    np.multiply(size, size, t)
    np.multiply(t, -_HALF, t)
    np.exp(t, t)
    np.multiply(t, _BY_SQRT_TWO_PI, t)
    np.multiply(t, size, t)
    np.add(tail, t, out)


def _sigmoid_of(t: Array) -> None:
    """The logistic function in place."""
    np.negative(t, t)
    np.exp(t, t)
    np.add(t, _ONE, t)
    np.divide(_ONE, t, t)


def sigmoid(x: Array, out: Array, work: Work) -> None:
    """1 / (1 + exp(-x))."""
    (t,) = work
    np.negative(x, t)
    np.exp(t, t)
    np.add(t, _ONE, t)
    np.divide(_ONE, t, out)


def silu(x: Array, out: Array, work: Work) -> None:
    """SiLU, x * sigmoid(x)."""
    t, bounded = work
    np.negative(x, t)
    np.exp(t, t)
    np.add(t, _ONE, t)
    np.clip(x, _LOWEST, _INF, bounded)
    np.divide(bounded, t, out)


def _scaled_silu_dx(x: Array, slope: Array, out: Array, work: Work) -> None:
    """The derivative of x * s with s = sigmoid(slope * x): s * (1 + slope * x * (1 - s)).

    With e = exp(-slope * x), 1 - s is e * s, which loses nothing where s is near 1.
    """
    s, e, bounded = work
    np.multiply(x, slope, bounded)
    np.clip(bounded, -_LOGISTIC_LIMIT, -_LOWEST, bounded)
    np.negative(bounded, e)
    np.exp(e, e)
    np.add(e, _ONE, s)
    np.divide(_ONE, s, s)
    np.multiply(e, s, e)
    np.multiply(e, bounded, e)
    np.add(e, _ONE, e)
    np.multiply(s, e, out)


def silu_dx(x: Array, out: Array, work: Work) -> None:
    """The derivative of silu."""
    _scaled_silu_dx(x, _ONE, out, work)


def gelu_apprx_sigmoid(x: Array, out: Array, work: Work) -> None:
    """GELU as x * sigmoid(1.702 * x)."""
    t, bounded = work
    np.multiply(x, _GELU_SIGMOID, t)
    _sigmoid_of(t)
    np.clip(x, _LOWEST, _INF, bounded)
    np.multiply(bounded, t, out)


def gelu_apprx_sigmoid_dx(x: Array, out: Array, work: Work) -> None:
    """The derivative of gelu_apprx_sigmoid."""
    _scaled_silu_dx(x, _GELU_SIGMOID, out, work)


def gelu_apprx_tanh(x: Array, out: Array, work: Work) -> None:
    """GELU by tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)), as x times a logistic function."""
    t, bounded = work
    np.multiply(x, x, t)
    np.multiply(t, _GELU_CUBIC, t)
    np.add(t, _ONE, t)
    np.multiply(t, x, t)
    np.multiply(t, _GELU_TANH, t)
    _sigmoid_of(t)
    np.clip(x, _LOWEST, _INF, bounded)
    np.multiply(bounded, t, out)


def softplus(x: Array, out: Array, work: Work) -> None:
    """log(1 + exp(x)), as max(x, 0) + log1p(exp(-|x|))."""
    t, positive = work
    np.abs(x, t)
    np.negative(t, t)
    np.exp(t, t)
    np.log1p(t, t)
    np.clip(x, _ZERO, _INF, positive)
    np.add(t, positive, out)


def mish(x: Array, out: Array, work: Work) -> None:
    """Mish, x * tanh(softplus(x)); with n = exp(x) * (exp(x) + 2) it is x * n / (n + 2)."""
    e, n = work
    np.clip(x, -_INF, _MISH_LIMIT, e)
    np.exp(e, e)
    np.add(e, _TWO, n)
    np.multiply(n, e, n)
    np.add(n, _TWO, e)
    np.divide(n, e, n)
    np.clip(x, _LOWEST, _INF, e)
    np.multiply(e, n, out)


def sin(x: Array, out: Array, work: Work) -> None:
    """The sine inside of ±pi; outside the cubic d**3 / 6 - d with d from the nearer end."""
    t, inside = work
    np.abs(x, t)
    np.sin(x, inside)
    if np.fmax.reduce(t, axis=None) > _PI:
        is_outside = t > _PI
        np.subtract(t, _PI, t)
        cubic = t * t * t
        np.multiply(cubic, _SIXTH, cubic)
        np.subtract(cubic, t, cubic)
        np.copysign(_ONE, x, t)
        np.multiply(cubic, t, cubic)
        np.copyto(inside, cubic, where=is_outside)
    out[...] = inside


def rsqrt(x: Array, out: Array, work: Work) -> None:
    """1 / sqrt(x)."""
    (t,) = work
    np.sqrt(x, t)
    np.divide(_ONE, t, out)


def copy(x: Array, out: Array) -> None:
    """The input itself."""
    out[...] = x


def relu(x: Array, out: Array) -> None:
    """max(x, 0)."""
    np.clip(x, _ZERO, _INF, out)


def reciprocal(x: Array, out: Array) -> None:
    """1 / x."""
    np.divide(_ONE, x, out)


def prelu(x: Array, slope: Array, out: Array) -> None:
    """x, times the slope where it is negative."""
    out[...] = np.where(x < _ZERO, x * slope, x)


FUNCTIONS: dict[str, Function] = {
    "copy": Function(copy),
    "square": Function(np.square),
    "sigmoid": Function(sigmoid, 1),
    "relu": Function(relu),
    "gelu": Function(gelu, 4),
    "gelu_dx": Function(gelu_dx, 4),
    "gelu_apprx_tanh": Function(gelu_apprx_tanh, 2),
    "gelu_apprx_sigmoid": Function(gelu_apprx_sigmoid, 2),
    "gelu_apprx_sigmoid_dx": Function(gelu_apprx_sigmoid_dx, 3),
    "silu": Function(silu, 2),
    "silu_dx": Function(silu_dx, 3),
    "tanh": Function(np.tanh),
    "softplus": Function(softplus, 2),
    "mish": Function(mish, 2),
    "erf": Function(erf, 5),
    "erf_dx": Function(erf_dx, 1),
    "exp": Function(np.exp),
    "sign": Function(np.sign),
    "abs": Function(np.abs),
    "log": Function(np.log),
    "sin": Function(sin, 2),
    "arctan": Function(np.arctan),
    "sqrt": Function(np.sqrt),
    "rsqrt": Function(rsqrt, 1),
    "reciprocal": Function(reciprocal),
}
"""Every function of one input by its `nki.language` name."""
PARAMETRIC: dict[str, Callable[[Array, Array, Array], None]] = {"prelu": prelu}
"""Functions with a parameter for each partition, called as `apply(x, parameter, out)`."""
