"""From a signature to NumPy calls: steps are written once, bindings fill in views and numbers.

A handler writes the steps of a signature on tensors of given layouts, with holes where an
instruction's own views, immediates or mask go. A binding fills them, which is all that is done for
each instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.base.errors import KernelError
from nki_agent.sim.axes import Shape
from nki_agent.sim.storage import Place

Array = npt.NDArray[Any]
Run = Callable[..., object]
Convert = Callable[[float | int], Array]


class HoleKind(StrEnum):
    """What fills a hole."""

    VIEW = "view"
    NUMBER = "number"
    MASK = "mask"


@dataclass(frozen=True, slots=True)
class Hole:
    """Stands in a step for a value that each instruction brings; `index` counts within the kind."""

    kind: HoleKind
    index: int


MASK = Hole(HoleKind.MASK, 0)
"""Elements of a PSUM operand that a matmul has written before."""

Arg = Hole | Array


class ViewSpec(NamedTuple):
    """A view to make of one tensor operand; bytes are of the buffer."""

    position: int
    shape: Shape
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    start: int
    widening: int


class Step(NamedTuple):
    """A call `run(*args)` once its holes are filled.

    A check changes nothing, runs on checked runs only, and returns a Diagnostic or None.
    """

    run: Run
    args: tuple[object, ...]
    is_check: bool = False


Args = tuple[Any, ...]


Bound = tuple[
    tuple[Run, ...],
    tuple[Args, ...],
    tuple[tuple[Run, ...], tuple[Args, ...]] | None,
]
"""The calls of one instruction: functions, which belong to the plan, and arguments; then the same
with checks among them, None if there are none."""


class Plan:
    """Steps with holes, ready to be bound."""

    __slots__ = ("_checked_picks", "_constants", "_numbers", "_picks", "_runs", "_views")

    def __init__(
        self,
        views: Sequence[ViewSpec],
        numbers: Sequence[tuple[int, Convert]],
        steps: Sequence[Step],
    ) -> None:
        """Number all arguments: views first, then immediates, the mask, and what is constant."""
        self._views = tuple(views)
        self._numbers = tuple(numbers)
        self._constants: list[object] = []
        picks = [(step, self._pick(step.args)) for step in steps]
        self._runs = tuple(step.run for step in steps if not step.is_check)
        self._picks = tuple(pick for step, pick in picks if not step.is_check)
        self._checked_picks = None
        if len(self._runs) < len(steps):
            self._checked_picks = (tuple(s.run for s in steps), tuple(pick for _, pick in picks))

    def _pick(self, args: tuple[object, ...]) -> Callable[[Sequence[Any]], Args]:
        """What takes a step's arguments out of the values of a binding."""
        assert len(args) > 1, "itemgetter gives a tuple for two and more"
        first = {
            HoleKind.VIEW: 0,
            HoleKind.NUMBER: len(self._views),
            HoleKind.MASK: len(self._views) + len(self._numbers),
        }
        indices = []
        for arg in args:
            if isinstance(arg, Hole):
                indices.append(first[arg.kind] + arg.index)
            else:
                indices.append(first[HoleKind.MASK] + 1 + len(self._constants))
                self._constants.append(arg)
        return itemgetter(*indices)

    def bind(
        self,
        places: Sequence[Place],
        offsets: Sequence[int],
        immediates: Sequence[float | int],
        mask: Array | None = None,
    ) -> Bound:
        """The calls of one instruction."""
        make_view = np.ndarray
        values: list[Any] = []
        for position, shape, dtype, strides, start, widening in self._views:
            place = places[position]
            at = start + place.base + offsets[position] * widening
            values.append(make_view(shape, dtype, place.buffer, at, strides))
        for position, convert in self._numbers:
            values.append(convert(immediates[position]))
        values.append(mask)
        values += self._constants
        args = tuple([pick(values) for pick in self._picks])
        if self._checked_picks is None:
            return self._runs, args, None
        runs, picks = self._checked_picks
        return self._runs, args, (runs, tuple([pick(values) for pick in picks]))


def refuse(what: str) -> NoReturn:
    """Raise NK114 for something that the simulator does not have; the compiler adds where."""
    raise KernelError(
        Diagnostic(
            code="NK114",
            what=f"{what} is not modelled",
            hint="docs/reference/coverage.md lists what is modelled",
        )
    )


def float_number(value: float | int) -> Array:
    """An immediate as the engines see it; the arrays are shared, so they must not be written."""
    # 0.0 and -0.0 would be one key.
    return _shared_number(value) if value else np.array(value, np.float32)


@lru_cache(maxsize=4096)
def _shared_number(value: float | int) -> Array:
    return np.array(value, np.float32)
