"""Scores that are capped softly: some number times tanh of a multiple of the product.

Law: exponentials of what lies within the cap overflow for no inputs, so no maximum is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from nki_agent.builtin.attention_sources import Cap
from nki_agent.builtin.tile_steps import Activate, AffineSelect, Number, Scale, Step, Tile

CAP_MAX = 60.0
"""Sums of exponentials of scores up to it and their products with values are far from the ends of
float32."""


def find_cap(steps: Sequence[Step], product: Tile, scores: Tile) -> Cap | None:
    """The cap of the scores, if steps before choices by position are that alone."""
    made = [step for step in steps if not isinstance(step, AffineSelect)]
    if made != list(steps[: len(made)]):
        return None
    data, inner, outer = product, list[Number](), list[Number]()
    is_capped = False
    for step in made:
        match step:
            case Scale() if step.data == data:
                found = _factors_of(step)
                if found is None:
                    return None
                (outer if is_capped else inner).extend(found)
            case Activate(function="tanh", bias=None, sums=None) if step.data == data:
                if is_capped or isinstance(step.scale, Tile):
                    return None
                inner.extend([] if step.scale is None else [step.scale])
                is_capped = True
            case _:
                return None
        data = step.dst
    if not is_capped or data != scores or len(outer) != 1 or not inner:
        return None
    if not 0 < min(outer[0]) <= max(outer[0]) <= CAP_MAX:
        return None
    return Cap(factors=tuple(inner), most=outer[0])


def _factors_of(step: Scale) -> list[Number] | None:
    """The numbers that a step multiplies by, if that is all it does."""
    found: list[Number] = []
    for scalar in step.scalars:
        if scalar.op != "multiply" or isinstance(scalar.operand, Tile):
            return None
        found.append(scalar.operand)
    return found
