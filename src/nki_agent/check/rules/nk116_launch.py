"""NK116: launches that the current dialect does not have: grids, and more than two cores."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.check.parsed import Unit, at
from nki_agent.check.project import Project

GRID = "grid"
"""A kernel file's own launch, read when it is traced."""
CORES = (1, 2)
LIMIT = "1 or 2 cores, `kernel[2](...)`"
HINT = "loop over tiles with `range` inside of the kernel; `nl.program_id(0)` is the core, 0 or 1"


def check(project: Project) -> Iterator[Diagnostic]:
    """A finding for every launch whose numbers are there to read and are not allowed."""
    names = {unit.name for unit in project.kernels}
    for unit in project.live_units:
        for node in unit.all(ast.Subscript):
            value = node.value
            if not isinstance(value, ast.Name) or value.id not in names - unit.bound:
                continue
            if isinstance(unit.file.parents.get(node), ast.Call) and not _is_allowed(node.slice):
                got = unit.file.segment(node) or value.id
                yield _refused(unit, node, f"launch of kernel `{value.id}`", f"`{got}`")
    module = project.main.module
    for assign in module.all(ast.Assign):
        is_grid = any(isinstance(t, ast.Name) and t.id == GRID for t in assign.targets)
        if is_grid and not _is_allowed(assign.value):
            got = module.file.segment(assign.value) or "another value"
            yield _refused(module, assign, "`grid` of the kernel file", got)


def _is_allowed(node: ast.expr) -> bool:
    """Whether the numbers are allowed; true where they are not written out."""
    items = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    if len(items) != 1:
        return False
    item = items[0]
    return not isinstance(item, ast.Constant) or (type(item.value) is int and item.value in CORES)


def _refused(unit: Unit, node: ast.AST, what: str, got: str) -> Diagnostic:
    return at(unit, node, Diagnostic(code="NK116", what=what, got=got, limit=LIMIT, hint=HINT))
