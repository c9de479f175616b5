"""What is added to scores, apart from their product: a mask, or a slope over the keys.

Law: a hidden key's score is so far below all others that it weighs nothing, as minus infinity does;
the Tensor Engine adds it, so that scores need not be copied where they are seen. What is added to
all scores of a query alike changes nothing, so of a slope over distances the keys' part is enough:
one more row of the product.
"""

from __future__ import annotations

from dataclasses import replace

from nki_agent.builtin.attention_sources import Mask, Slope
from nki_agent.builtin.tile_steps import (
    Activate,
    AffineSelect,
    CopyWhere,
    Fill,
    Iota,
    Kind,
    Load,
    Scalar,
    Scale,
    ScaleCombine,
    Step,
    Tile,
)
from nki_agent.isa.dtype import DType

HIDDEN = 1e30
"""What is taken off: in reach of bfloat16, and nothing beside it counts."""
MASK = "hidden"
"""The tile of what is added."""
OPPOSITE = {
    "equal": "not_equal",
    "not_equal": "equal",
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
}


def take_mask_out(levels: list[list[Step]], product: Tile, scores: Tile) -> Mask | None:
    """Make scores plain multiples of the product, and the mask a tile that is added to it.

    None, and nothing is changed, where more than that and choices by position happens to scores.
    """
    steps = levels[-1]
    if not steps or not isinstance(chosen := steps[-1], CopyWhere) or chosen.dst != scores:
        return None
    source, seen = chosen.src, chosen.predicate
    copies = [s for s in steps if isinstance(s, Activate) and s.dst == source]
    selects = [s for s in steps if isinstance(s, AffineSelect) and s.dst == s.data == source]
    fills = [s for s in steps if isinstance(s, Fill) and s.dst == scores]
    own = [*copies, *selects, *fills, chosen]
    rest = [step for step in steps if step not in own]
    if (len(copies), len(fills)) != (1, 1) or max(fills[0].value) > -HIDDEN:
        return None
    copy, size = copies[0], len(fills[0].value)
    if copy.function != "copy" or copy.data != product or copy.bias is not None:
        return None
    if seen.kind is Kind.VECTOR and seen.level < product.level and not rest:
        mask = replace(seen, name=MASK, dtype=DType.BFLOAT16)
        scalars = (_by("subtract", 1.0, size), _by("multiply", HIDDEN, size))
        levels[seen.level].append(Scale(dst=mask, data=seen, scalars=scalars))
        found = Mask(tile=mask, steps=())
    else:
        compared = _compared(rest, seen, size)
        if compared is None:
            return None
        found = compared
    renamed = [replace(s, dst=scores, data=scores) for s in selects]
    levels[-1] = [replace(copy, dst=scores), *renamed]
    return found


def _compared(steps: list[Step], seen: Tile, size: int) -> Mask | None:
    """The mask where a query's number and a key's, compared, say what is seen."""
    match steps:
        case [*loads, Scale(dst=dst, data=data, scalars=(Scalar() as scalar,))] if dst == seen:
            plain = all(isinstance(s, Load) and not s.dst.is_wide for s in loads)
            if not plain or scalar.op not in OPPOSITE or scalar.reverse or data.in_psum:
                return None
        case _:
            return None
    mask = replace(seen, name=MASK, dtype=DType.BFLOAT16)
    hidden = replace(scalar, op=OPPOSITE[scalar.op])
    made = Scale(dst=mask, data=data, scalars=(hidden, _by("multiply", -HIDDEN, size)))
    return Mask(tile=mask, steps=(*loads, made))


def take_slope_out(levels: list[list[Step]], product: Tile, scores: Tile) -> Slope | None:
    """Make scores plain multiples of the product, and what falls with distance a row of it.

    None, and nothing is changed, where more than that and choices by position happens to scores.
    """
    match levels[-1]:
        case [
            Iota(dst=positions, access=access),
            Scale(dst=bias, data=data, scalars=(Scalar(op="multiply", operand=Tile() as slope),)),
            *selects,
            ScaleCombine(op="add", reverse=False) as combine,
        ] if data == positions:
            pass
        case _:
            return None
    scalar = combine.scalar
    hides = all(isinstance(s, AffineSelect) and s.dst == s.data == bias for s in selects)
    is_sum = combine.dst == scores and combine.data == product and combine.other == bias
    is_factor = scalar.op == "multiply" and isinstance(scalar.operand, tuple)
    if not (hides and is_sum and is_factor) or slope.kind is not Kind.ONE:
        return None
    *loops, _, steps = access.strides
    if slope.level >= product.level or any(map(any, loops)) or len(set(steps)) != 1:
        return None
    assert isinstance(scalar.operand, tuple)
    copy = Activate(dst=scores, function="copy", data=product, scale=scalar.operand)
    renamed = [replace(s, dst=scores, data=scores) for s in selects if isinstance(s, AffineSelect)]
    levels[-1] = [copy, *renamed]
    return Slope(tile=slope, step=steps[0], factor=scalar.operand)


def _by(op: str, number: float, size: int) -> Scalar:
    return Scalar(op=op, operand=(number,) * size)
