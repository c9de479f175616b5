"""NK118: names that still work and that a later NKI will not have.

Law: advice only, and only where the vendor says so. An edit is carried where the successor is the
same thing under another name.
Sources: nki.language.affine_range, sequential_range, static_range (aliases of `range`), tile_size;
nki.isa engine constants; dynamic loops deep dive; release notes 0.3.0 (`mode`), 0.6.0.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from nki_agent.base.diagnostic import Diagnostic, Edit, Severity
from nki_agent.check.api import ApiName
from nki_agent.check.call import Call, calls_of
from nki_agent.check.editing import end_of, remove_argument, replace, replace_node
from nki_agent.check.parsed import Unit, at
from nki_agent.check.project import Project
from nki_agent.check.rules.nk104_names import names_of


class _Successor(NamedTuple):
    """What to write; `name` is below the same module, or a built-in; empty where it is no name."""

    text: str
    name: str = ""


_RANGE = _Successor("`range`", "range")
_LOOP = _Successor("`nl.fori_loop(start, stop, body)` with the body as a function")
DEPRECATED: dict[str, _Successor] = {
    "nki.language.affine_range": _RANGE,
    "nki.language.sequential_range": _RANGE,
    "nki.language.static_range": _RANGE,
    "nki.language.dynamic_range": _LOOP,
    "nki.language.tile_size.psum_fmax": _Successor("`nl.tile_size.psum_bank_fmax`"),
    "nki.language.tile_size.total_available_sbuf_size": _Successor(
        "`nl.tile_size.sbuf_size_bytes` or `sbuf_fmax_bytes`"
    ),
    **{
        f"nki.isa.{engine}_engine": _Successor(f"`nisa.engine.{engine}`", f"engine.{engine}")
        for engine in ("tensor", "vector", "scalar", "gpsimd", "unknown")
    },
}


def check(project: Project) -> Iterator[Diagnostic]:
    """Advice for every deprecated name in kernel code, and for `nki.jit(mode=...)`."""
    for unit in project.kernel_units:
        for node, api in names_of(unit):
            full = ".".join([api.full, *api.members[:1]])
            successor = DEPRECATED.get(api.full) or DEPRECATED.get(full)
            if successor is not None and isinstance(node, ast.Attribute | ast.Name):
                edits = _edits(unit, node, api, successor)
                yield _advice(unit, node, full, successor.text, edits)
    for call in calls_of(project):
        if call.api.full == "nki.jit":
            yield from _check_mode(call)


def _advice(
    unit: Unit, node: ast.AST, name: str, successor: str, edits: tuple[Edit, ...]
) -> Diagnostic:
    finding = Diagnostic(
        code="NK118",
        what=f"`{name}` is deprecated",
        severity=Severity.ADVICE,
        hint=f"use {successor}",
        edits=edits,
    )
    return at(unit, node, finding)


def _edits(
    unit: Unit, node: ast.Attribute | ast.Name, api: ApiName, successor: _Successor
) -> tuple[Edit, ...]:
    if not successor.name and api.members[:1] == ("psum_fmax",) and len(api.members) == 1:
        line, column = end_of(unit.file, node)
        start = (line, column - len("psum_fmax"))
        return (replace(unit.file, start, (line, column), "psum_bank_fmax"),)
    if successor is _RANGE:
        known = unit.bound | unit.file.module.bound | unit.file.aliases.keys()
        return () if "range" in known else (replace_node(unit.file, node, "range"),)
    if not successor.name or not isinstance(node, ast.Attribute):
        return ()
    prefix = unit.file.name_of_module(api.module)
    return (replace_node(unit.file, node, f"{prefix}.{successor.name}"),) if prefix else ()


def _check_mode(call: Call) -> Iterator[Diagnostic]:
    keyword = next((k for k in call.node.keywords if k.arg == "mode"), None)
    if keyword is None:
        return
    is_decorator = not call.node.args and len(call.node.keywords) == 1
    file = call.unit.file
    edits = remove_argument(file, call.node, keyword)
    if is_decorator and _is_decorator(call):
        edits = (replace(file, end_of(file, call.node.func), end_of(file, call.node), ""),)
    yield _advice(call.unit, call.node, "nki.jit(mode=...)", "`@nki.jit`: it has no effect", edits)


def _is_decorator(call: Call) -> bool:
    parent = call.unit.file.parents.get(call.node)
    return isinstance(parent, ast.FunctionDef) and call.node in parent.decorator_list
