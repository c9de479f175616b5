"""Which inputs a trial has where one draw tells more than another.

A maximum over a part of a row overflows only where the rest of the row leads by more than `exp` can
hold, and one that starts at 0 fails only where a whole row is far below: few rows of scores leave
both to chance. Law: the draw is a function of the trial's seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from numpy.typing import NDArray

from nki_agent.base.seeds import seed_for
from nki_agent.task.family import FamilyScale
from nki_agent.task.reference import Reach, WatchedReference

if TYPE_CHECKING:
    from nki_agent.task.task import ShapeSet

Inputs = dict[str, NDArray[Any]]

OVERFLOWS_AT: Final = 100.0
"""A score from which on `exp` overflows in float32, at 88.7, also where it is the largest of a draw
by less than another draw's."""
UNDERFLOWS_AT: Final = -120.0
"""All scores of a row from which on `exp` of them is 0 in float32, at -104, also in other draws."""
DRAWS_MAX: Final = 8
"""Draws of one trial; each costs a run of the reference."""


def draw_trial(shapes: ShapeSet, seed: int, scale: FamilyScale) -> Inputs:
    """The inputs of a trial: the first draw that tells all that this scale has draws for.

    Where no draw does, it is the one that comes nearest. Where the reference runs in another
    process, that process makes this choice.
    """
    reference = shapes.reference
    if not ((scale.leads or scale.sinks) and isinstance(reference, WatchedReference)):
        return shapes.sampler.draw(seed, scale)
    best: tuple[tuple[int, float], Inputs] | None = None
    for inputs, reach in list_draws(lambda s: shapes.sampler.draw(s, scale), reference, seed):
        margins = _list_margins(reach, scale)
        rank = sum(margin > 0.0 for margin in margins), min(margins)
        if best is None or rank > best[0]:
            best = rank, inputs
        if min(margins) > 0.0:
            break
    assert best is not None
    return best[1]


def list_draws(
    draw: Callable[[int], Inputs], reference: WatchedReference, seed: int
) -> Iterator[tuple[Inputs, Reach]]:
    """So many draws as a trial may have, each with how far its scores go."""
    for number in range(DRAWS_MAX):
        inputs = draw(seed_for(seed, "again", number) if number else seed)
        yield inputs, reference.find_reach(inputs)


def leads(reach: Reach) -> bool:
    """Whether each half of a row has the largest score by far somewhere."""
    return reach.lead > OVERFLOWS_AT


def sinks(reach: Reach) -> bool:
    """Whether some row of scores is far below zero."""
    return reach.lowest_row < UNDERFLOWS_AT


def _list_margins(reach: Reach, scale: FamilyScale) -> list[float]:
    """By how much a draw tells, or fails to tell, each thing that the scale has draws for."""
    return [
        *([reach.lead - OVERFLOWS_AT] if scale.leads else []),
        *([UNDERFLOWS_AT - reach.lowest_row] if scale.sinks else []),
    ]
