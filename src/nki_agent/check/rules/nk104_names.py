"""NK104, NK106, NK114, NK311 and NK313: names below `nki` that cannot be used.

Law: the words are those of the tracer and of `isa`, which see the same faults when the line runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import msgspec

from nki_agent.base.diagnostic import Diagnostic, Edit
from nki_agent.check.api import (
    CONSTANTS,
    OLD_NAMES,
    SHORT_NAMES,
    ApiName,
    exists,
    find_api_name,
    is_not_modelled,
    members_of,
    nearest,
    suggest,
    suggest_name,
)
from nki_agent.check.editing import replace_attribute, replace_node, text_of
from nki_agent.check.meant import SAME_NAMES
from nki_agent.check.parsed import Unit, at, imports_of
from nki_agent.check.project import Project
from nki_agent.chip.spec import GENERATION
from nki_agent.isa.table import TABLE
from nki_agent.nki.current.modules import MODULES

PAR_DIM = "nki.language.par_dim"
FAILS_ON_HARDWARE = {
    "nki.language.divide": "multiply by the reciprocal: `nl.multiply(x, nl.reciprocal(y))`",
    "nki.language.mod": "subtract the floor of the quotient times y",
    "nki.language.fmod": "subtract the truncated quotient times y",
}
"""Functions that simulators run and devices don't (release notes 0.3.0 and 0.4.0)."""


def check(project: Project) -> Iterator[Diagnostic]:
    """A finding for every name that does not exist or cannot be used."""
    generation = GENERATION[project.target]
    for unit in project.live_units:
        for node, api in names_of(unit):
            finding = _judge(api) or _judge_generation(api, generation)
            if finding is not None:
                edits = _edits(unit, node, api, finding.code)
                yield at(unit, node, msgspec.structs.replace(finding, edits=edits))


def names_of(unit: Unit) -> tuple[tuple[ast.AST, ApiName], ...]:
    """Every use and import of a name below `nki`, each dotted name once; several rules ask."""
    if not isinstance(unit.names, tuple):
        unit.names = tuple(_find_names(unit))
    return unit.names


def _find_names(unit: Unit) -> Iterator[tuple[ast.AST, ApiName]]:
    parents = unit.file.parents
    nodes: list[ast.Attribute | ast.Name] = [*unit.all(ast.Attribute), *unit.all(ast.Name)]
    for node in nodes:
        if isinstance(parents.get(node), ast.Attribute) or not isinstance(node.ctx, ast.Load):
            continue
        api = find_api_name(unit.full_name(node))
        if api is not None:
            yield node, api
    for statement in imports_of(unit):
        yield from ((statement, api) for api in _imported(statement))


def _imported(node: ast.ImportFrom | ast.Import) -> Iterator[ApiName]:
    for alias in node.names:
        full = alias.name
        if isinstance(node, ast.ImportFrom):
            if node.level or alias.name == "*":
                continue
            full = f"{node.module}.{alias.name}"
        api = find_api_name(full)
        if api is not None:
            yield api


def _edits(unit: Unit, node: ast.AST, api: ApiName, code: str) -> tuple[Edit, ...]:
    """The edit to the one name that is meant; imports are left to people."""
    if not isinstance(node, ast.Attribute):
        return ()
    if code == "NK106":
        return _edits_of_old_name(unit, node, api)
    if code != "NK104":
        return ()
    if exists(api):
        return _member_edits(unit, node, api)
    named = _part_named(unit, node, api)
    homes = [module for module, names in MODULES.items() if api.name in names]
    if named is None or homes:
        prefix = unit.file.name_of_module(homes[0]) if len(homes) == 1 else None
        return () if named is None or not prefix else _move(unit, named, f"{prefix}.{api.name}")
    if api.name in SAME_NAMES:
        prefix = unit.file.name_of_module("nki.language")
        return _move(unit, named, f"{prefix}.{SAME_NAMES[api.name]}") if prefix else ()
    right = nearest(api.name, MODULES[api.module])
    return () if right is None else replace_attribute(unit.file, named, right)


def _move(unit: Unit, node: ast.Attribute, text: str) -> tuple[Edit, ...]:
    return (replace_node(unit.file, node, text),)


def _member_edits(unit: Unit, node: ast.Attribute, api: ApiName) -> tuple[Edit, ...]:
    members = members_of(api)
    right = nearest(api.members[0], members) if members and len(api.members) == 1 else None
    return () if right is None else replace_attribute(unit.file, node, right)


def _part_named(unit: Unit, node: ast.Attribute, api: ApiName) -> ast.Attribute | None:
    """The part of a dotted name that ends with the module's name."""
    part: ast.expr = node
    while isinstance(part, ast.Attribute) and unit.full_name(part) != api.full:
        part = part.value
    return part if isinstance(part, ast.Attribute) else None


def _edits_of_old_name(unit: Unit, node: ast.Attribute, api: ApiName) -> tuple[Edit, ...]:
    """`@nki.trace` is `@nki.jit`; `nl.par_dim(128)` in front of a shape is 128."""
    parent = unit.file.parents.get(node)
    if api.full == "nki.trace" and isinstance(parent, ast.FunctionDef):
        return replace_attribute(unit.file, node, "jit")
    if api.full != PAR_DIM or not isinstance(parent, ast.Call) or parent.func is not node:
        return ()
    shape = unit.file.parents.get(parent)
    is_first = isinstance(shape, ast.Tuple | ast.List) and shape.elts[0] is parent
    if not is_first or len(parent.args) != 1 or parent.keywords:
        return ()
    return (replace_node(unit.file, parent, text_of(unit.file, parent.args[0])),)


def _judge(api: ApiName) -> Diagnostic | None:
    if api.full in OLD_NAMES and (api.members or api.name not in SAME_NAMES):
        return Diagnostic(
            code="NK106",
            what=f"`{api.short}` belongs to the older `neuronxcc.nki` dialect",
            hint=OLD_NAMES[api.full],
        )
    if is_not_modelled(api):
        return Diagnostic(
            code="NK114",
            what=f"`{api.full}` is part of NKI but not modelled",
            hint="docs/reference/coverage.md lists what is modelled",
        )
    if not exists(api):
        what = f"module `{api.module}` has no `{api.name}`"
        return Diagnostic(code="NK104", what=what, hint=suggest_name(api))
    if api.full in FAILS_ON_HARDWARE:
        return Diagnostic(
            code="NK313",
            what=f"`{api.short}` fails when compiled for a device",
            hint=FAILS_ON_HARDWARE[api.full],
        )
    return _judge_member(api)


def _judge_member(api: ApiName) -> Diagnostic | None:
    if not api.members or api.full in MODULES or api.full == CONSTANTS:
        return None
    members = members_of(api)
    if members is None or api.members[0] in members:
        return None
    near = suggest(api.members[0], members, prefix=f"{api.short}.")
    return Diagnostic(
        code="NK104",
        what=f"`{api.short}` has no `{api.members[0]}`",
        hint=near or f"it has {', '.join(sorted(members))}",
    )


def _judge_generation(api: ApiName, generation: int) -> Diagnostic | None:
    declaration = TABLE.get(api.name) if api.module == "nki.isa" else None
    if declaration is None or declaration.first_generation <= generation:
        return None
    return Diagnostic(
        code="NK311",
        what=f"instruction `{SHORT_NAMES[api.module]}.{api.name}` on NeuronCore-v{generation}",
        got="not available",
        limit=f"NeuronCore-v{declaration.first_generation} or newer",
        hint="choose another target, or write it with other instructions",
    )
