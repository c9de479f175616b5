"""Names of tensors as the kernel's own source has them, for every listing and message.

Law: only a name that the tracer made up is replaced, and only where the source leaves no doubt: one
assignment on the line, whose call makes one tensor. Names stay distinct, and no rule reads them.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from nki_agent.program.records import Program, Tensor

LENGTH_MAX = 40
_MADE_UP = re.compile(r"t[0-9]+")
_API = frozenset({"nl", "nisa", "nki"})
SIZES = frozenset({"par_dim"})
"""Calls of the API that make no tensor."""


def name_tensors(program: Program, files: Mapping[str, str]) -> Program:
    """The same Program; a tensor that an assignment makes has the name of its target."""
    names: dict[str, dict[int, str]] = {}
    found: list[str] = []
    for number, tensor in enumerate(program.tensors):
        name = ""
        if _MADE_UP.fullmatch(tensor.name) and tensor.name == f"t{number}":
            name = _find_name(program, tensor, files, names)
        found.append(name)
    if not any(found):
        return program
    counts = Counter(found)
    taken = {t.name for t, name in zip(program.tensors, found, strict=True) if not name}
    numbers: Counter[str] = Counter()
    tensors = []
    for tensor, name in zip(program.tensors, found, strict=True):
        if not name:
            tensors.append(tensor)
            continue
        numbers[name] += 1
        is_alone = counts[name] == 1 and name not in taken
        label = name if is_alone else f"{name}#{numbers[name]}"
        tensors.append(msgspec.structs.replace(tensor, name=label))
    return msgspec.structs.replace(program, tensors=tuple(tensors))


def _find_name(
    program: Program, tensor: Tensor, files: Mapping[str, str], names: dict[str, dict[int, str]]
) -> str:
    stack = program.stack(tensor.stack)
    if not stack or stack[-1].file not in files:
        return ""
    file = stack[-1].file
    if file not in names:
        names[file] = read_targets(files[file])
    return names[file].get(stack[-1].line, "")


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
