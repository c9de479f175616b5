"""Shapes as text in names of sizes: `B, 2 * S, E`.

Law: an axis is a sum or product as a declaration may hold it, written with the fewest parentheses,
so that equal axes that were made in the same way have equal texts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

Axes = tuple[str, ...]
_PLACE = re.compile(r"\{(\w+)\}")


def fill(template: str, places: Mapping[str, str]) -> str:
    """Put texts into the places of a template; KeyError names one that nothing fills."""
    return _PLACE.sub(lambda found: places[found[1]], template)


def split_shape(text: str) -> Axes:
    """The axes of `B, 2 * S, E`; none of an empty text."""
    if not text.strip(" ,"):
        return ()
    node = ast.parse(f"({text.strip(' ,')},)", mode="eval").body
    assert isinstance(node, ast.Tuple)
    return tuple(ast.unparse(axis) for axis in node.elts)


def shape_places(axes: Axes, *, prefix: str = "") -> dict[str, str]:
    """What templates may say of an operand's shape, each axis in parentheses."""
    whole = [f"({axis})" for axis in axes]
    places = {
        "shape": ", ".join(whole),
        "lead": ", ".join(whole[:-1]),
        "middle": ", ".join(whole[1:-1]),
        "tail": ", ".join(whole[1:]),
        "rank": str(len(axes)),
    }
    if whole:
        places["last"] = whole[-1]
    places |= {f"d{number}": axis for number, axis in enumerate(whole)}
    return {f"{prefix}{name}": text for name, text in places.items()}


def evaluate(axis: str, sizes: Mapping[str, int]) -> int:
    """An axis at one choice of the sizes."""
    return _evaluate(ast.parse(axis, mode="eval").body, sizes)


def _evaluate(node: ast.expr, sizes: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return sizes[name]
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _evaluate(left, sizes), _evaluate(right, sizes)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case _:
                    return a // b
        case _:
            raise ValueError(f"`{ast.unparse(node)}` is no size")


def names_in(axis: str) -> set[str]:
    """The sizes that an axis names."""
    return {node.id for node in ast.walk(ast.parse(axis)) if isinstance(node, ast.Name)}
