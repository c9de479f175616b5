"""Which sizes of a task no tensor argument tells: a number of heads, of classes, of groups.

Law: a size that follows from the axes of the arguments is read from them. Any other is given to
the kernel as a number, after its tensors: nothing else could tell it at sizes that nobody has seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from nki_agent.task.declaration import Declared, Size, Sizes

Known = Mapping[str, int]


def find_free(declared: Declared, wanted: Iterable[str]) -> tuple[str, ...]:
    """Those of the sizes `wanted` that do not follow from axes, in the order of the file.

    Where one of several would tell the others, the first of them is free.
    """
    tensors = (*declared.inputs.values(), *declared.parameters.values())
    axes = [axis for tensor in tensors for axis in tensor.shape]
    asked = set(wanted)
    known: set[str] = set()
    free: list[str] = []
    for name in declared.sizes:
        known |= _follow(axes, known, tuple(declared.shapes.values()))
        if name in asked and name not in known:
            known.add(name)
            free.append(name)
    return tuple(free)


def names_in(size: Size) -> frozenset[str]:
    """The sizes that an expression names."""
    return _names_in(size.text)


@lru_cache(maxsize=1024)
def _names_in(text: str) -> frozenset[str]:
    tree = ast.parse(text, mode="eval")
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def _follow(axes: Sequence[Size], known: set[str], shapes: Sequence[Sizes]) -> set[str]:
    """All that axes with one unknown name tell, one after another."""
    found = set(known)
    while True:
        more = {
            next(iter(unknown))
            for axis in axes
            if len(unknown := names_in(axis) - found) == 1
            and all(_tells(axis, next(iter(unknown)), sizes) for sizes in shapes)
        }
        if not more:
            return found
        found |= more


def _tells(axis: Size, name: str, sizes: Sizes) -> bool:
    """Whether the axis, solved for the name, gives its value."""
    tree = ast.parse(axis.text, mode="eval").body
    return _solve(tree, name, axis.value(sizes), sizes) == sizes[name]


def _solve(node: ast.expr, name: str, target: int, known: Known) -> int | None:
    """The value of `name` at which the expression is `target`; None where this cannot tell."""
    if isinstance(node, ast.Name):
        return target
    if not isinstance(node, ast.BinOp):
        return None
    in_left, in_right = _names(node.left, name), _names(node.right, name)
    if in_left and in_right:
        # A square would tell it, but a kernel has no whole root.
        return None
    inner, other = (node.left, node.right) if in_left else (node.right, node.left)
    number = Size(ast.unparse(other)).value(known)
    undone = _undo(node.op, target, number, is_left=in_left)
    return None if undone is None else _solve(inner, name, undone, known)


def _undo(op: ast.operator, target: int, number: int, *, is_left: bool) -> int | None:
    """What gives `target` on the left (or right) of an operator whose other side is `number`."""
    match op:
        case ast.Add():
            return target - number
        case ast.Sub():
            return target + number if is_left else number - target
        case ast.Mult() if number:
            return target // number
        case ast.FloorDiv() if is_left:
            return target * number
        case _:
            return None


def _names(node: ast.expr, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node))
