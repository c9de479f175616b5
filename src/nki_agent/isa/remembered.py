"""What was worked out about a signature before, for this Program or for another.

Law: only functions of a signature, and of objects that never change, are remembered; a signature
is known by its stored bytes, since `True`, `1` and `1.0` are equal and are not the same attribute.
What raises is not remembered. The memory is bounded, whatever the signatures hold.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

import msgspec

from nki_agent.isa.signature import Signature

ANSWERS_MAX: Final = 2048
"""Answers of one function; then all are forgotten: a loop of one kernel has some dozens."""
KEY_BYTES_MAX: Final = 2048
"""Longer signatures are worked out each time: an attribute may hold megabytes."""

P = ParamSpec("P")
T = TypeVar("T")
_ENCODER = msgspec.msgpack.Encoder()


def remember(
    function: Callable[Concatenate[Signature, P], T],
) -> Callable[Concatenate[Signature, P], T]:
    """A function that is worked out once for each signature and each set of other arguments.

    Other arguments are told apart by what they are, not by what they are equal to.
    """
    known: dict[tuple[object, ...], tuple[T, tuple[Any, ...]]] = {}

    @wraps(function)
    def find(signature: Signature, /, *rest: P.args, **named: P.kwargs) -> T:
        try:
            data = _ENCODER.encode(signature)
        except (OverflowError, TypeError, UnicodeEncodeError):
            return function(signature, *rest, **named)  # no stored form: made in this process
        key = (data, *map(id, rest))
        found = known.get(key)
        if found is not None:
            return found[0]
        answer = function(signature, *rest, **named)
        if len(data) <= KEY_BYTES_MAX and not named:
            if len(known) >= ANSWERS_MAX:
                known.clear()
            known[key] = (answer, rest)  # kept with them, so that no other object has their ids
        return answer

    return cast("Callable[Concatenate[Signature, P], T]", find)
