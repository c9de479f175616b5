"""Arithmetic-logic operators on float32 tiles, and bitwise ones on unsigned integers.

Law: a binary operator is called as `apply(a, b, out)`, a unary one as `apply(a, out)`; it reads its
inputs before it writes `out`, so they may overlap. Comparisons and logical operators give 1 and 0.
maximum, minimum, abs_max and abs_min give NaN where either input is NaN, so that unwritten memory
stays visible (the chip's rule is not published). `logical_not` is exclusive-or with 1, as
documented, so 2 gives 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Apply = Callable[..., object]

LARGE_ELEMS = 2048
"""From this size on NumPy's clip beats maximum and minimum with one number."""

_ONE = np.array(1.0, np.float32)
_INF = np.array(np.inf, np.float32)


def _maximum(a: Array, b: Array, out: Array) -> None:
    np.maximum(a, b, out=out)


def _minimum(a: Array, b: Array, out: Array) -> None:
    np.minimum(a, b, out=out)


def _abs_max(a: Array, b: Array, out: Array) -> None:
    out[...] = np.where((np.abs(a) > np.abs(b)) | np.isnan(a), a, b)


def _abs_min(a: Array, b: Array, out: Array) -> None:
    out[...] = np.where((np.abs(a) < np.abs(b)) | np.isnan(a), a, b)


def _logical_not(a: Array, out: Array) -> None:
    out[...] = np.rint(a).astype(np.int64) ^ 1


def _rsqrt(a: Array, out: Array) -> None:
    np.divide(_ONE, np.sqrt(a), out)


def _reciprocal(a: Array, out: Array) -> None:
    np.divide(_ONE, a, out)


def _bypass(a: Array, out: Array) -> None:
    out[...] = a


def _clip_low(a: Array, low: Array, out: Array) -> None:
    np.clip(a, low, _INF, out)


def _clip_high(a: Array, high: Array, out: Array) -> None:
    np.clip(a, -_INF, high, out)


BINARY: dict[str, Apply] = {
    "add": np.add,
    "multiply": np.multiply,
    "subtract": np.subtract,
    "maximum": _maximum,
    "minimum": _minimum,
    "abs_max": _abs_max,
    "abs_min": _abs_min,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "power": np.power,
}
UNARY: dict[str, Apply] = {
    "logical_not": _logical_not,
    "rsqrt": _rsqrt,
    "reciprocal": _reciprocal,
    "abs": np.abs,
    "bypass": _bypass,
}
BITWISE: dict[str, Apply] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}
"""On unsigned integers: a right shift brings in zeros."""
BITWISE_UNARY: dict[str, Apply] = {"invert": np.invert}
EXACT_INTEGER: dict[str, Apply] = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}
"""What the GpSimd Engine computes on 32-bit integers without float32; overflow wraps."""
WITH_NUMBER: dict[str, Apply] = {"maximum": _clip_low, "minimum": _clip_high}
"""Faster forms of a binary operator whose second input is one number, for large tiles."""

IDENTITY: dict[str, float] = {
    "add": 0.0,
    "subtract": 0.0,
    "multiply": 1.0,
    "maximum": float("-inf"),
    "minimum": float("inf"),
    "abs_max": 0.0,
    "abs_min": float("inf"),
}
"""What accumulator registers hold after a reset."""
FOLDS: dict[str, Any] = {
    "add": np.add,
    "multiply": np.multiply,
    "subtract": np.subtract,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}
"""The ufunc that reduces with each operator."""
ORDER_FREE = ("maximum", "minimum")
"""Reductions in float32 whose value does not depend on the order."""
