"""The same work with other numbers: a training task whose constants are changed.

Law: only numbers with a point in what the reference returns or assigns are replaced, each by one of
its sign and about its size; what comes out is a task like any other: a kernel for it is judged
before it is taught. Without this a small model writes the number that it has seen with an operator,
not the one it is shown.
"""

from __future__ import annotations

import ast
import re
from typing import Final

import msgspec
import numpy as np

from nki_agent.base.hashes import hash_text
from nki_agent.corpus.opaque import kind_of_number
from nki_agent.corpus.record import CorpusTask

LARGE: Final = (0.1, 0.125, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75, 0.8, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)
SMALL: Final = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8)
"""Numbers that keep something away from zero."""
SMALL_MAX: Final = 0.02
NEAR: Final = 4.0
"""How many times a number may become larger or smaller; a small one, 100 times."""
PLAIN_KIND: Final = kind_of_number(0.3)
"""Of numbers in whose place others compute the same kind of thing."""
_RENUMBERED = re.compile(r"-n[0-9a-f]{4}$")


def renumber(row: CorpusTask, rng: np.random.Generator) -> CorpusTask | None:
    """The task with other numbers, by chance; None where it has none to change."""
    lines = row.source.splitlines(keepends=True)
    found = _list_numbers(ast.parse(row.source))
    if not found:
        return None
    for node in sorted(found, key=lambda n: (n.lineno, n.col_offset), reverse=True):
        assert isinstance(node.value, float)
        line = lines[node.lineno - 1].encode()
        new = repr(_other(node.value, rng)).encode()
        changed = line[: node.col_offset] + new + line[node.end_col_offset :]
        lines[node.lineno - 1] = changed.decode()
    source = "".join(lines)
    if source == row.source:
        return None
    digest = hash_text(source)
    return msgspec.structs.replace(row, id=f"{row.id}-n{digest[:4]}", source=source, sha256=digest)


def is_renumbered(task_id: str) -> bool:
    """Whether an id is that of a task with other numbers."""
    return _RENUMBERED.search(task_id) is not None


def _list_numbers(tree: ast.Module) -> list[ast.Constant]:
    """The numbers with a point in functions, but for arguments' defaults."""
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name in ("forward", "reference")
    ]
    return [
        node
        for function in functions
        for statement in function.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, float)
        and kind_of_number(node.value) == PLAIN_KIND
    ]


def _other(value: float, rng: np.random.Generator) -> float:
    """Another number of about this size."""
    is_small = value <= SMALL_MAX
    among, near = (SMALL, 100.0) if is_small else (LARGE, NEAR)
    close = [n for n in among if 1 / near <= n / value <= near and n != value]
    close = [n for n in close if kind_of_number(n) == PLAIN_KIND]
    return close[int(rng.integers(len(close)))] if close else value
