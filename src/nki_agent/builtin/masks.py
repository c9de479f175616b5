"""Keys that a tensor hides from all queries, as a number that is added to their scores.

Law: a hidden key's score is so far below all others that it weighs nothing, as minus infinity does;
the Tensor Engine adds it, so that scores need not be copied where they are seen.
"""

from __future__ import annotations

from dataclasses import replace

from nki_agent.builtin.tile_steps import (
    Activate,
    CopyWhere,
    Fill,
    Kind,
    Number,
    Scalar,
    Scale,
    Step,
    Tile,
)
from nki_agent.isa.dtype import DType

HIDDEN = 1e30
"""What is taken off: in reach of bfloat16, and nothing beside it counts."""
MASK = "hidden_keys"
"""The tile of what is added."""


def take_mask_out(levels: list[list[Step]], product: Tile, scores: Tile) -> Tile | None:
    """Make scores plain multiples of the product, and the mask a tile that is added to it.

    None, and nothing is changed, where that is not all that happens to the scores.
    """
    match sorted(levels[-1], key=lambda step: isinstance(step, CopyWhere)):
        case [*made, CopyWhere(dst=dst, src=source, predicate=seen)] if dst == scores:
            copies = [s for s in made if isinstance(s, Activate)]
            fills = [s for s in made if isinstance(s, Fill)]
        case _:
            return None
    if len(made) != len(copies) + len(fills) or (len(copies), len(fills)) != (1, 1):
        return None
    copy, fill = copies[0], fills[0]
    is_plain = copy.function == "copy" and copy.data == product and copy.bias is None
    is_hidden = fill.dst == scores and max(fill.value) <= -HIDDEN
    is_shared = seen.kind is Kind.VECTOR and seen.level < product.level
    if not (is_plain and is_hidden and is_shared) or copy.dst != source:
        return None
    mask = replace(seen, name=MASK, dtype=DType.BFLOAT16)
    levels[seen.level].append(
        Scale(dst=mask, data=seen, scalars=(_by("subtract", 1.0, fill), _by("multiply", HIDDEN, fill)))
    )
    levels[-1] = [replace(copy, dst=scores)]
    return mask


def _by(op: str, number: float, like: Fill) -> Scalar:
    value: Number = (number,) * len(like.value)
    return Scalar(op=op, operand=value)
