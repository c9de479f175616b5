"""Number formats: rounding float32 to a narrower one, and between carriers and stored bytes.

A float tensor is carried as float32 whose values its format can hold, so arithmetic needs no cast
and the only rounding is at a destination: to nearest, ties to even. Overflow gives infinity where
the format has one, else NaN; float32 to integer rounds the same way and saturates, NaN gives 0 (the
documentation is silent there). bool_ is uint8. tfloat32 keeps ten bits of the fraction.

Law: NaN stays NaN, the sign of zero is kept, and the input is never changed.
Not modelled: stochastic rounding.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from nki_agent.isa.dtype import DType

Array = npt.NDArray[Any]
FLOAT = np.dtype(np.float32)
WORD = np.dtype(np.uint32)
HALF_WORD_BITS = 16

_EXPONENT = np.array(0x7F800000, np.uint32)
_SIGN = np.array(0x80000000, np.uint32)
_ONE = np.array(1, np.uint32)
_SIXTEEN = np.array(HALF_WORD_BITS, np.uint32)
_TFLOAT32_KEPT = np.array(0xFFFFE000, np.uint32)
_FRACTION_BITS = 23
_BIAS = 127
_EXACT_INT_MAX = 2.0**31
_UPPER_HALF = 1 if sys.byteorder == "little" else 0


def bits_of(array: Array) -> Array:
    """The same float32 memory as unsigned words."""
    return array.view(WORD)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Rounding that drops low bits of the fraction and keeps float32's exponent range."""

    shift: Array
    just_under_half: Array
    kept: Array

    @staticmethod
    def to_fraction(fraction_bits: int) -> _Cut:
        dropped = _FRACTION_BITS - fraction_bits
        words = (dropped, (1 << (dropped - 1)) - 1, 0xFFFFFFFF << dropped & 0xFFFFFFFF)
        return _Cut(*(np.array(word, np.uint32) for word in words))


@dataclass(frozen=True, slots=True)
class _Narrow:
    """Rounding to a format with fewer exponents, by adding and taking away a large number.

    In float32 `x + m - m` rounds x to multiples of the last place of m. With e the exponent of x,
    m = 1.5 * 2**(e + 23 - f) has the last place of a format with f bits of fraction; e is bounded
    below by the format's least exponent, which gives its denormals. A value past the largest
    becomes infinite by scaling up to float32's limit and down again.
    """

    least: Array
    most: Array
    to_magic: Array
    up: Array
    down: Array
    largest: float
    has_infinity: bool

    @staticmethod
    def of(*, fraction_bits: int, least: int, most: int, largest: float) -> _Narrow:
        steps = _FRACTION_BITS - fraction_bits
        half = 1 << (_FRACTION_BITS - 1)
        return _Narrow(
            least=np.array((least + _BIAS) << _FRACTION_BITS, np.uint32),
            most=np.array((most + 1 + _BIAS) << _FRACTION_BITS, np.uint32),
            to_magic=np.array((steps << _FRACTION_BITS) + half, np.uint32),
            up=np.array(2.0 ** (_BIAS - most), np.float32),
            down=np.array(2.0 ** (most - _BIAS), np.float32),
            largest=largest,
            has_infinity=largest == (2.0 - 2.0**-fraction_bits) * 2.0**most,
        )


_CUTS = {
    DType.BFLOAT16: _Cut.to_fraction(7),
    DType.TFLOAT32: _Cut.to_fraction(10),
}
_NARROWS = {
    DType.FLOAT16: _Narrow.of(fraction_bits=10, least=-14, most=15, largest=65504.0),
    DType.FLOAT8_E5M2: _Narrow.of(fraction_bits=2, least=-14, most=15, largest=57344.0),
    DType.FLOAT8_E4M3: _Narrow.of(fraction_bits=3, least=-6, most=7, largest=240.0),
    DType.FLOAT8_E4M3FN: _Narrow.of(fraction_bits=3, least=-6, most=8, largest=448.0),
}


def largest_value(dtype: DType) -> float | None:
    """The largest finite value of a format with fewer exponents than float32."""
    return _NARROWS[dtype].largest if dtype in _NARROWS else None


def round_float(values: Array, dtype: DType, out: Array, work: tuple[Array, Array]) -> None:
    """Write `values` (float32) to `out` (float32) as the format holds them.

    `work` holds two contiguous float32 arrays of the same shape. `out` may overlap `values`.
    """
    if dtype in _CUTS:
        _round_cut(values, _CUTS[dtype], out, work[0])
    elif dtype in _NARROWS:
        _round_narrow(values, _NARROWS[dtype], out, work)
    elif dtype is DType.FLOAT32:
        out[...] = values
    else:
        out[...] = values.astype(dtype.numpy_dtype).astype(FLOAT)


def _round_cut(values: Array, cut: _Cut, out: Array, work: Array) -> None:
    bits, rounded = bits_of(values), bits_of(work)
    np.right_shift(bits, cut.shift, rounded)
    np.bitwise_and(rounded, _ONE, rounded)
    np.add(rounded, bits, rounded)
    np.add(rounded, cut.just_under_half, rounded)
    peak = np.maximum.reduce(values, axis=None)
    if peak != peak:  # noqa: PLR0124 - true for NaN alone
        # Rounding a NaN's payload up could carry into its exponent.
        np.copyto(work, np.nan, where=np.isnan(values))
    np.bitwise_and(rounded, cut.kept, bits_of(out))


def _round_narrow(values: Array, narrow: _Narrow, out: Array, work: tuple[Array, Array]) -> None:
    bits = bits_of(values)
    magic, rounded = work
    magic_bits, rounded_bits = bits_of(magic), bits_of(rounded)
    np.bitwise_and(bits, _EXPONENT, magic_bits)
    np.clip(magic_bits, narrow.least, narrow.most, magic_bits)
    np.add(magic_bits, narrow.to_magic, magic_bits)
    np.add(values, magic, rounded)
    np.subtract(rounded, magic, rounded)
    if narrow.has_infinity:
        np.multiply(rounded, narrow.up, rounded)
        np.multiply(rounded, narrow.down, rounded)
    else:
        np.copyto(rounded, np.nan, where=np.abs(rounded) > narrow.largest)
    np.bitwise_and(bits, _SIGN, magic_bits)
    np.bitwise_or(rounded_bits, magic_bits, bits_of(out))


def round_integer(values: Array, dtype: DType, out: Array, work: Array) -> None:
    """Write `values` (float32) to `out`, an integer array: nearest even, saturating."""
    np.rint(values, work)
    low, high = np.minimum.reduce(work, axis=None), np.maximum.reduce(work, axis=None)
    if high != high:  # noqa: PLR0124 - true for NaN alone
        np.copyto(work, 0.0, where=np.isnan(work))
        low, high = np.minimum.reduce(work, axis=None), np.maximum.reduce(work, axis=None)
    limits = np.iinfo(dtype.numpy_dtype)
    if limits.min <= low and high <= limits.max and high < _EXACT_INT_MAX:
        out[...] = work
    else:
        out[...] = np.clip(work.astype(np.float64), limits.min, limits.max)


def saturate(values: Array, dtype: DType) -> Array:
    """64-bit integers as the format holds them; a float format takes them through float32."""
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy_dtype)
        return np.clip(values, limits.min, limits.max).astype(dtype.numpy_dtype)
    return round_values(values.astype(FLOAT), dtype)


def round_values(values: Array, dtype: DType) -> Array:
    """A new array: float32 `values` as the format holds them, in the format's carrier."""
    source = np.ascontiguousarray(values, FLOAT)
    if dtype.is_integer:
        integers = np.empty(source.shape, dtype.numpy_dtype)
        round_integer(source, dtype, integers, np.empty_like(source))
        return integers
    out = np.empty_like(source)
    round_float(source, dtype, out, (np.empty_like(source), np.empty_like(source)))
    return out


def decode(stored: Array, dtype: DType, out: Array) -> None:
    """Write the float32 values of an array of the format's own bytes to `out`."""
    if dtype is DType.BFLOAT16:
        words = bits_of(out)
        words[...] = stored.view(np.uint16)
        np.left_shift(words, _SIXTEEN, words)
    elif dtype is DType.TFLOAT32:
        np.bitwise_and(stored.view(WORD), _TFLOAT32_KEPT, bits_of(out))
    elif dtype.is_float and dtype.itemsize == 1:
        out[...] = byte_values(dtype)[stored.view(np.uint8)]
    else:
        out[...] = stored


def encode(carried: Array, dtype: DType, out: Array) -> None:
    """Write float32 values that the format holds to `out`, an array of the format's own bytes."""
    if dtype is DType.BFLOAT16:
        halves = np.ascontiguousarray(carried).view(np.uint16)
        out.view(np.uint16)[...] = halves[..., _UPPER_HALF::2]
    elif dtype.is_float and dtype.itemsize == 1:
        out.view(np.uint8)[...] = _byte_codes(dtype)[bits_of(carried) >> _SIXTEEN]
    else:
        out[...] = carried


@cache
def byte_values(dtype: DType) -> Array:
    """The value of every code of a one-byte float."""
    return np.arange(256, dtype=np.uint8).view(dtype.numpy_dtype).astype(FLOAT)


@cache
def _byte_codes(dtype: DType) -> Array:
    """The code for the upper half of every float32 that a one-byte float can hold."""
    upper = np.arange(1 << HALF_WORD_BITS, dtype=np.uint16).view(ml_dtypes.bfloat16)
    with np.errstate(all="ignore"):
        codes: Array = upper.astype(FLOAT).astype(dtype.numpy_dtype).view(np.uint8)
    return codes
