"""Sizes as expressions of the sizes at hand: products, shares, sums and differences.

Law: the simplest form that holds at every shape set of the task wins; a form is tried only with
small whole factors, so that none holds by chance alone more often than it must.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, permutations, product

from nki_agent.builtin.tile_steps import Size

Named = tuple[str, Size]
Form = Callable[[Sequence[Named], Size], str | None]
FACTOR_MAX = 16
"""The largest factor or share of a size that is tried."""
SHIFT_MAX = 64
"""The largest number that is added to a size."""
STEPS = sorted(range(2, FACTOR_MAX + 1), key=lambda step: (step.bit_count(), step))
"""Steps of windows that are tried: powers of two first, since small counts fit several."""
WINDOW_REST_MAX = 16
"""The largest number that is added before windows are counted."""
FACTORS_MAX = 3
"""Sizes that are multiplied."""


def derive_size(axes: Sequence[Named], value: Size) -> str | None:
    """An expression of sizes alone, in brackets where it needs them; None if no form holds."""
    forms = (_scaled, _sum, _scaled_product, _product_of_sum, _rest_of_three)
    return _first(forms, axes, value)


def derive_shifted(axes: Sequence[Named], value: Size) -> str | None:
    """An expression with a number beside the size: padding, windows.

    There are many such, so that some fit small sizes by chance: ask only where nothing else holds.
    """
    return _first((_shifted, _windows), axes, value)


def derive_run(axes: Sequence[Named], runs: Sequence[Named], value: Size) -> str | None:
    """An expression of what whole axes of a tensor reach over, and of one size.

    Such is where the last of some blocks begins, or the part of a run that a number says.
    """
    for text, size in runs:
        if all(size) and not any(v % n for v, n in zip(value, size, strict=True)):
            rest = tuple(v // n for v, n in zip(value, size, strict=True))
            inner = _scaled(axes, rest) or _sum(axes, rest) or _shifted(axes, rest)
            if inner is not None:
                return f"{inner} * {text}"
        for name, number in axes:
            if all(n == v * part for n, v, part in zip(size, value, number, strict=True)):
                return f"{text} // {name}"
    return None


def _first(forms: Sequence[Form], axes: Sequence[Named], value: Size) -> str | None:
    known: dict[Size, str] = {}
    for text, size in axes:
        if any(n != 1 for n in size):
            known.setdefault(tuple(size), text)
    named = [(text, size) for size, text in known.items()]
    return next((found for form in forms if (found := form(named, value)) is not None), None)


def derived_sizes(axes: Sequence[Named]) -> Iterator[Named]:
    """The sizes themselves, then products, quotients and sums of two of them, each value once."""
    known: dict[Size, str] = {}
    for text, size in axes:
        known.setdefault(tuple(size), text)
    single = [(text, size) for size, text in known.items()]
    yield from single
    for (first, a), (second, b) in combinations(single, 2):
        pairs = list(zip(a, b, strict=True))
        yield f"({first} * {second})", tuple(x * y for x, y in pairs)
        yield f"({first} + {second})", tuple(x + y for x, y in pairs)
        for left, right, over in (
            (first, second, pairs),
            (second, first, [p[::-1] for p in pairs]),
        ):
            if all(y and x % y == 0 for x, y in over):
                yield f"({left} // {right})", tuple(x // y for x, y in over)


def _scaled(named: Sequence[Named], value: Size) -> str | None:
    """A size times a small factor, or a share of it."""
    made = (_times(text, size, value) for text, size in named)
    return next((text for text in made if text is not None), None)


def _shifted(named: Sequence[Named], value: Size) -> str | None:
    """A size, or a small multiple of it, and a number more or less."""
    for text, size in named:
        if len(set(size)) == 1:
            continue
        low, high = (size.index(pick(size)) for pick in (min, max))
        rise, run = value[high] - value[low], size[high] - size[low]
        if rise % run:
            continue
        factor = rise // run
        shift = value[low] - factor * size[low]
        if not 1 <= factor <= FACTOR_MAX or not 0 < abs(shift) <= SHIFT_MAX:
            continue
        if all(n * factor + shift == v for n, v in zip(size, value, strict=True)):
            scaled = text if factor == 1 else f"{factor} * {text}"
            return f"({scaled} {'+' if shift > 0 else '-'} {abs(shift)})"
    return None


def _windows(named: Sequence[Named], value: Size) -> str | None:
    """How many windows move along a size: what is left of it in steps, rounded down."""
    for step in STEPS:
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
                if factor > 1 and all(p - q == factor * v for p, q, v in pairs):
                    return f"(({x} - {y}) // {factor})"
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


def _product_of_sum(
    named: Sequence[Named], value: Size, *, depth: int = FACTORS_MAX - 1
) -> str | None:
    """(a + n) * b * c, and the like: rows that were padded, cut or put side by side."""
    for text, size in named:
        if not all(size) or any(v % n for v, n in zip(value, size, strict=True)):
            continue
        rest = tuple(v // n for v, n in zip(value, size, strict=True))
        inner = _scaled(named, rest) or _sum(named, rest) or _shifted(named, rest)
        if inner is None and depth > 1:
            inner = _product_of_sum(named, rest, depth=depth - 1)
        if inner is not None:
            return f"{inner} * {text}"
    return None


def _rest_of_three(named: Sequence[Named], value: Size) -> str | None:
    """What two parts leave of a size, or a share of it: one weight's columns in a joint one."""
    for (whole, a), (first, b), (second, c) in permutations(named, 3):
        for count, share in product((1, 2, 3, 4), repeat=2):
            found = list(zip(a, b, c, value, strict=True))
            part = first if count == 1 else f"{count} * {first}"
            if all(n - count * p - q == share * v for n, p, q, v in found):
                rest = f"{whole} - {part} - {second}"
                return f"({rest})" if share == 1 else f"(({rest}) // {share})"
            if all(n - count * p == share * q * v for n, p, q, v in found):
                over = second if share == 1 else f"({share} * {second})"
                return f"(({whole} - {part}) // {over})"
    return None
