"""Sizes as expressions of the sizes at hand: products, shares, sums and differences.

Law: the simplest form that holds at every shape set of the task wins; a form is tried only with
small whole factors, so that none holds by chance alone more often than it must.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations

from nki_agent.builtin.tile_steps import Size

Named = tuple[str, Size]
FACTOR_MAX = 16
"""The largest factor or share of a size that is tried."""
SHIFT_MAX = 64
"""The largest number that is added to a size."""
WINDOW_REST_MAX = 16
"""The largest number that is added before windows are counted."""
FACTORS_MAX = 3
"""Sizes that are multiplied."""


def derive_size(axes: Sequence[Named], value: Size) -> str | None:
    """An expression in brackets where it needs them; None if no simple form holds."""
    known: dict[Size, str] = {}
    for text, size in axes:
        if any(n != 1 for n in size):
            known.setdefault(tuple(size), text)
    named = [(text, size) for size, text in known.items()]
    for find in (_scaled, _sum, _scaled_product, _product_of_sum, _windows):
        if (found := find(named, value)) is not None:
            return found
    return None


def _scaled(named: Sequence[Named], value: Size) -> str | None:
    """A size times a small factor or a share of it, and perhaps a number more."""
    for text, size in named:
        if (made := _times(text, size, value)) is not None:
            return made
    for text, size in named:
        if len(set(size)) == 1:
            continue
        first, last = value[0], value[-1]
        if size[0] == size[-1] or (first - last) % (size[0] - size[-1]):
            continue
        factor = (first - last) // (size[0] - size[-1])
        shift = first - factor * size[0]
        if not 1 <= factor <= FACTOR_MAX or not 0 < abs(shift) <= SHIFT_MAX:
            continue
        if all(n * factor + shift == v for n, v in zip(size, value, strict=True)):
            scaled = text if factor == 1 else f"{factor} * {text}"
            return f"({scaled} {'+' if shift > 0 else '-'} {abs(shift)})"
    return None


def _windows(named: Sequence[Named], value: Size) -> str | None:
    """How many windows move along a size: what is left of it in steps, rounded down."""
    for step in range(2, FACTOR_MAX + 1):
        for text, size in named:
            if len(set(size)) == 1:
                continue
            for rest in sorted(range(1 - step, WINDOW_REST_MAX), key=abs):
                if all((n + rest) // step == v for n, v in zip(size, value, strict=True)):
                    shifted = (
                        text if rest == 0 else f"({text} {'+' if rest > 0 else '-'} {abs(rest)})"
                    )
                    return f"({shifted} // {step})"
    return None


def _times(text: str, size: Size, value: Size) -> str | None:
    """`text` times one fraction of small whole numbers; None if the ratio is no such one."""
    ratios = {Fraction(v, n) for n, v in zip(size, value, strict=True) if n}
    if len(ratios) != 1 or not all(size):
        return None
    ratio = ratios.pop()
    if ratio <= 0 or max(ratio.numerator, ratio.denominator) > FACTOR_MAX:
        return None
    share = text if ratio.denominator == 1 else f"{text} // {ratio.denominator}"
    if ratio.numerator == 1:
        return share
    if ratio.denominator == 1:
        return f"{ratio.numerator} * {share}"
    return f"{share} * {ratio.numerator}"


def _sum(named: Sequence[Named], value: Size) -> str | None:
    for (first, a), (second, b) in combinations(named, 2):
        for x, y, left, right in ((first, second, a, b), (second, first, b, a)):
            for factor in (1, 2, 3):
                pairs = list(zip(left, right, value, strict=True))
                times = "" if factor == 1 else f"{factor} * "
                if all(p + factor * q == v for p, q, v in pairs):
                    return f"({x} + {times}{y})"
                if all(p - factor * q == v for p, q, v in pairs):
                    return f"({x} - {times}{y})"
    return None


def _scaled_product(named: Sequence[Named], value: Size) -> str | None:
    for text, size in _products(named):
        if (made := _times(text, size, value)) is not None:
            return made
    return None


def _products(named: Sequence[Named]) -> Iterator[Named]:
    for count in range(2, FACTORS_MAX + 1):
        for chosen in combinations(named, count):
            text = " * ".join(name for name, _ in chosen)
            values = zip(*(size for _, size in chosen), strict=True)
            yield text, tuple(math.prod(v) for v in values)


def _product_of_sum(named: Sequence[Named], value: Size) -> str | None:
    """(a + n) * b, and the like: a stride over rows that were padded or put side by side."""
    for text, size in named:
        if not all(size) or any(v % n for v, n in zip(value, size, strict=True)):
            continue
        rest = tuple(v // n for v, n in zip(value, size, strict=True))
        inner = _scaled(named, rest) or _sum(named, rest)
        if inner is not None:
            return f"{inner} * {text}"
    return None
