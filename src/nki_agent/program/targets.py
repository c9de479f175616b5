"""What each line of a kernel's source calls the tensor that it makes.

Law: a name only where the source leaves no doubt: one assignment on the line, whose call makes one
tensor.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

LENGTH_MAX = 40
MADE_UP = re.compile(r"t([0-9]+)")
"""Names that the tracer gives by number, where the kernel gives none."""
_API = frozenset({"nl", "nisa", "nki"})
SIZES = frozenset({"par_dim"})
"""Calls of the API that make no tensor."""


def read_targets(source: str) -> dict[int, str]:
    """What each line's only assignment calls the one tensor that it makes."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[int, str] = {}
    twice: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        name = _read_assignment(node)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            twice |= {line} & found.keys()
            found[line] = name
    return {line: name for line, name in found.items() if name and line not in twice}


def _read_assignment(node: ast.Assign | ast.AnnAssign) -> str:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    value = node.value.elt if isinstance(node.value, ast.ListComp) else node.value
    if len(targets) != 1 or not isinstance(value, ast.Call) or any(_list_makers(value)):
        return ""
    return _write_target(targets[0])[:LENGTH_MAX]


def _list_makers(call: ast.Call) -> Iterator[str]:
    """Calls inside of a call that may make tensors too."""
    for node in ast.walk(call):
        if node is call or not isinstance(node, ast.Call):
            continue
        function = node.func
        if not isinstance(function, ast.Attribute) or function.attr in SIZES:
            continue
        if isinstance(function.value, ast.Name) and function.value.id in _API:
            yield function.attr


def _write_target(target: ast.expr) -> str:
    match target:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return f"{name}.{attribute}"
        case ast.Subscript(value=ast.Name(id=name)):
            return name
        case _:
            return ""
