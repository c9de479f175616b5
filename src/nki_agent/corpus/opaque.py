"""Operations that stay what they are called: their numbers as words, their axes as places.

Law: a size is no part of it. Of a number it counts whether it is 0, 1, 2, -1 or another; an axis is
counted from the last; the axes before and behind the one that an operation runs along are one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nki_agent.corpus.strides import Reading

HUGE = 1e4
"""A mask's number below minus this is as good as minus infinity."""
_NAMED = (0.0, 1.0, 2.0, -1.0)
_AXES = frozenset({"dim", "dims", "dim0", "dim1"})
_WEIGHT = "weight"
_LEADING_AXES = 2


def kind_of_number(value: float) -> str:
    """A number as far as it says what is computed."""
    if value in _NAMED:
        return f"{value:g}"
    if value != value:  # noqa: PLR0124 - not a number
        return "nan"
    if value < -HUGE:
        return "-inf"
    return "inf" if value == float("inf") else "c"


def split_axes(reading: Reading, place: int | None) -> Reading:
    """The axes before one, that one, and those behind; each for itself where none is named."""
    if place is None or -place > len(reading.axes):
        return reading
    at = len(reading.axes) + place
    lead = tuple(loop for axis in reading.axes[:at] for loop in axis)
    tail = tuple(loop for axis in reading.axes[at + 1 :] for loop in axis)
    return Reading((lead, reading.axes[at], tail), reading.offset)


def describe_options(name: str, named: Mapping[str, Any], *, rank: int) -> str:
    """An operation's name with what is given to it besides tensors."""
    words = [name]
    has_axis = isinstance(named.get("dim"), int)
    for key, value in named.items():
        if has_axis and key == "dim":
            continue
        if key == _WEIGHT and hasattr(value, "shape") and len(value.shape) > _LEADING_AXES:
            words.append(f"window={_describe([*value.shape[_LEADING_AXES:]])}")
        elif key == "groups":
            words.append(f"groups={_describe_groups(value, named)}")
        elif key in _AXES:
            words.append(f"{key}={_describe_axes(value, rank)}")
        elif (text := _describe(value)) is not None:
            words.append(f"{key}={text}")
    return " ".join(words)


def _describe_groups(groups: int, named: Mapping[str, Any]) -> str:
    if groups == 1:
        return "1"
    weight = named.get(_WEIGHT)
    return "each" if weight is not None and weight.shape[1] == 1 else "some"


def _describe_axes(value: Any, rank: int) -> str:
    axes: Sequence[int] = [value] if isinstance(value, int) else value or ()
    return ",".join(str(a - rank if a >= 0 else a) for a in axes)


def _describe(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool() | str():
            return str(value)
        case int() | float():
            return kind_of_number(float(value))
        case list() | tuple():
            kinds = [k for item in value if (k := _describe(item)) is not None]
            gaps = "".join("." if item is None else "x" for item in value)
            if any(item is None for item in value):
                return gaps
            # One number for each axis: how many axes there are is no matter where all are alike.
            return kinds[0] if len(set(kinds)) == 1 else ",".join(kinds) or None
        case _:
            return None
