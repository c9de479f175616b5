"""The `SHAPES` of a task file as text: hidden from a model, or put in another's place.

Law: only the assignment of `SHAPES` at the top of the file changes; every other character stays.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from nki_agent.task.declaration import ODD, SHAPES
from nki_agent.task.userfile import ONE_AT_A_TIME

Sizes = Mapping[str, int]


def find_sizes(source: str) -> dict[str, dict[str, int]] | None:
    """What a file declares, read without running it; None where it does not declare its sizes."""
    node = _find(source)
    if node is None:
        return None
    try:
        found = ast.literal_eval(node.value)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def hide_odd(source: str) -> str:
    """The file without its odd sizes: what a model is shown."""
    found = find_sizes(source)
    if not found or ODD not in found:
        return source
    return put_sizes(source, {name: sizes for name, sizes in found.items() if name != ODD})


def put_sizes(source: str, shapes: Mapping[str, Sizes]) -> str:
    """The file with other sizes."""
    node = _find(source)
    assert node is not None
    assert node.end_lineno is not None
    lines = source.splitlines(keepends=True)
    entries = [f'    "{name}": {_write(sizes)},\n' for name, sizes in shapes.items()]
    text = [f"{SHAPES} = {{\n", *entries, "}\n"]
    return "".join((*lines[: node.lineno - 1], *text, *lines[node.end_lineno :]))


def _write(sizes: Sizes) -> str:
    return "{" + ", ".join(f'"{name}": {size}' for name, size in sizes.items()) + "}"


def _find(source: str) -> ast.Assign | None:
    try:
        # Python 3.11 counts the depth of a parse in a place that threads share.
        with ONE_AT_A_TIME:
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for node in tree.body:
        if isinstance(node, ast.Assign):
            names = [t.id for t in node.targets if isinstance(t, ast.Name)]
            if names == [SHAPES]:
                return node
    return None
