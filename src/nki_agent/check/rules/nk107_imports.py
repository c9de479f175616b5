"""NK107 (and NK106 for `neuronxcc`, NK903 for our own package): what a kernel file may import."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic, Edit, Severity
from nki_agent.check.editing import end_of, replace, start_of, text_between
from nki_agent.check.parsed import Unit, at, imported_module
from nki_agent.check.project import Project
from nki_agent.nki.current.modules import MODULES

ALLOWED = frozenset(
    {
        "__future__",
        "dataclasses",
        "enum",
        "functools",
        "itertools",
        "math",
        "ml_dtypes",
        "nki",
        "numpy",
        "typing",
    }
)
ALLOWED_TEXT = f"{', '.join(sorted(ALLOWED - {'__future__'}))} and helper modules beside it"
OWN_PACKAGE = "nki_agent"
OLD_PACKAGE = "neuronxcc"
IMPORT_ERRORS = ("ImportError", "ModuleNotFoundError", "Exception")
REPLACEMENTS = {
    "torch": "a kernel file holds NKI code only: keep PyTorch in the task's file",
    "jax": "a kernel file holds NKI code only: keep JAX in the caller's file",
    "torch_xla": "a kernel file holds NKI code only: keep PyTorch in the task's file",
    "os": "remove it; the target is chosen with `--target`, not in the environment",
}

_FROM = re.compile(r"from[ \t]+([\w.]+)[ \t]")


def check(project: Project) -> Iterator[Diagnostic]:
    """A finding for every import that a kernel file may not have."""
    helpers = {name.partition(".")[0] for name in project.module_names}
    for unit in project.live_units:
        for node in unit.all(ast.Import):
            for alias in node.names:
                yield from _check_module(unit, node, alias.name, helpers)
        for from_node in unit.all(ast.ImportFrom):
            yield from _check_from(unit, from_node, project, helpers)


def _check_from(
    unit: Unit, node: ast.ImportFrom, project: Project, helpers: set[str]
) -> Iterator[Diagnostic]:
    if not node.level:
        yield from _check_module(unit, node, node.module or "", helpers)
        return
    module = imported_module(unit.file, node)
    names = {module, *(f"{module}.{a.name}" if module else a.name for a in node.names)}
    known = project.module_names & names
    in_package = "." in unit.file.module_name or unit.file.name.endswith("/__init__.py")
    if known and in_package:
        return
    plain = (node.module or node.names[0].name) if node.names else ""
    yield at(
        unit,
        node,
        Diagnostic(
            code="NK107",
            what=f"relative import `from {'.' * node.level}{node.module or ''}` finds no module",
            hint=f"import the helper beside the kernel by its name: `from {plain} import ...`",
        ),
    )


def _check_module(unit: Unit, node: ast.AST, name: str, helpers: set[str]) -> Iterator[Diagnostic]:
    root = name.partition(".")[0]
    if root in ALLOWED or root in helpers:
        return
    if root == OLD_PACKAGE:
        finding = Diagnostic(
            code="NK106",
            what=f"import of `{name}`, the older dialect",
            hint="`import nki`, `import nki.language as nl`, `import nki.isa as nisa`; pass `dst`"
            " first, slice in place of masks",
            edits=_new_import(unit, node, name),
        )
    elif root == OWN_PACKAGE:
        finding = Diagnostic(
            code="NK903",
            what=f"import of `{name}`, the tracer's own package",
            hint="remove it: kernels only import `nki`",
        )
    else:
        guarded = _is_guarded(unit, node)
        finding = Diagnostic(
            code="NK107",
            what=f"import of `{name}` is not allowed in a kernel file",
            severity=Severity.WARNING if guarded else Severity.ERROR,
            hint=f"{REPLACEMENTS.get(root, 'remove it')}; allowed are {ALLOWED_TEXT}",
        )
    yield at(unit, node, finding)


def _new_import(unit: Unit, node: ast.AST, name: str) -> tuple[Edit, ...]:
    """`neuronxcc.nki...` to `nki...`, where the module still exists and its name is given."""
    file = unit.file
    if isinstance(node, ast.Import):
        alias = next((a for a in node.names if a.name == name and a.asname), None)
        new = name.removeprefix(f"{OLD_PACKAGE}.")
        if alias is None or new not in MODULES:
            return ()
        text = f"{new} as {alias.asname}" if new != alias.asname else new
        return (replace(file, start_of(file, alias), end_of(file, alias), text),)
    if not isinstance(node, ast.ImportFrom):
        return ()
    start = start_of(file, node)
    if name == OLD_PACKAGE:
        only = node.names[0] if len(node.names) == 1 else None
        if only is None or only.name != "nki":
            return ()
        text = f"import nki as {only.asname}" if only.asname not in (None, "nki") else "import nki"
        return (replace(file, start, end_of(file, node), text),)
    line = file.lines[node.lineno - 1]
    match = _FROM.match(text_between(file, start, (node.lineno, len(line))))
    new = name.removeprefix(f"{OLD_PACKAGE}.")
    if match is None or match.group(1) != name or new not in MODULES:
        return ()
    first = start[1] + match.start(1)
    return (replace(file, (start[0], first), (start[0], first + len(name)), new),)


def _is_guarded(unit: Unit, node: ast.AST) -> bool:
    """Whether the import stands in a `try` that goes on without it."""
    child, parent = node, unit.file.parents.get(node)
    while parent is not None:
        if isinstance(parent, ast.Try) and child in parent.body:
            return any(_catches_import(handler) for handler in parent.handlers)
        child, parent = parent, unit.file.parents.get(parent)
    return False


def _catches_import(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(
        kind is None or (isinstance(kind, ast.Name) and kind.id in IMPORT_ERRORS) for kind in kinds
    )
