"""NK113: kernel code reads a module global that can change.

Law: a name that the module assigns once is a constant, whatever it holds, unless some function
rebinds or changes it. A change from outside of the file can't be seen here; callers that keep
compiled kernels must key them by the values of the globals that they read.
Source: NKI language guide, "Kernel Caching".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.check.parsed import ParsedFile, Unit, at
from nki_agent.check.project import Project

CHANGING_METHODS = frozenset(
    {
        "add",
        "append",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "popitem",
        "remove",
        "reverse",
        "setdefault",
        "sort",
        "update",
    }
)


def check(project: Project) -> Iterator[Diagnostic]:
    """A warning for every global that kernel code reads and something changes."""
    reasons = {id(file): _find_changing(file) for file in project.files}
    for unit in project.kernel_units:
        changing = reasons[id(unit.file)]
        reported: set[str] = set()
        for node in unit.all(ast.Name) if changing else ():
            if not isinstance(node.ctx, ast.Load):
                continue
            if node.id in changing and node.id not in unit.bound | reported:
                reported.add(node.id)
                yield _warning(unit, node, changing[node.id])


def _warning(unit: Unit, node: ast.Name, reason: str) -> Diagnostic:
    return at(
        unit,
        node,
        Diagnostic(
            code="NK113",
            what=f"`{unit.name}` reads the module global `{node.id}`, which {reason}: the kernel is"
            " not pure, and a cached one keeps the old value",
            severity=Severity.WARNING,
            hint=f"pass `{node.id}` as an argument, or assign it once",
        ),
    )


def _find_changing(file: ParsedFile) -> dict[str, str]:
    """Globals that are more than constants, each with the reason."""
    reasons: dict[str, str] = {}
    counts: dict[str, int] = {}
    module = file.module
    kinds = (ast.Assign, ast.AugAssign, ast.AnnAssign)
    for node in (node for kind in kinds for node in module.all(kind)):
        for name in _assigned(node):
            in_branch = not isinstance(file.parents.get(node), ast.Module)
            counts[name] = counts.get(name, 0) + (0 if in_branch else 1)
            if isinstance(node, ast.AugAssign) or counts[name] > 1:
                reasons.setdefault(name, "is assigned more than once")
    for unit in file.units.values() if module.bound else ():
        own = unit.bound - _globals_of(unit)
        for name, reason in _changes(unit):
            if name in module.bound and name not in own:
                reasons.setdefault(name, reason)
    return reasons


def _assigned(node: ast.AST) -> Iterator[str]:
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    for target in targets:
        items = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        yield from (item.id for item in items if isinstance(item, ast.Name))


def _globals_of(unit: Unit) -> set[str]:
    return {name for node in unit.all(ast.Global) for name in node.names}


def _changes(unit: Unit) -> Iterator[tuple[str, str]]:
    """Names that a unit rebinds or changes, with the way."""
    for node in unit.all(ast.Global):
        yield from ((name, "a function rebinds with `global`") for name in node.names)
    targets: list[ast.Subscript | ast.Attribute] = [
        *unit.all(ast.Subscript),
        *unit.all(ast.Attribute),
    ]
    for target in targets:
        if isinstance(target.value, ast.Name) and not isinstance(target.ctx, ast.Load):
            yield target.value.id, "a function changes in place"
    for call in unit.all(ast.Call):
        match call.func:
            case ast.Attribute(value=ast.Name(id=name), attr=method) if method in CHANGING_METHODS:
                yield name, f"a function changes with `{method}`"
            case _:
                pass
