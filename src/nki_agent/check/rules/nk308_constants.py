"""NK308: numbers in the place of enum members, and strings in the place of memory regions.

Source: release notes 0.3.0: both are refused since then.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.check.api import member_of
from nki_agent.check.call import Call, calls_of
from nki_agent.check.editing import replace_node
from nki_agent.check.project import Project
from nki_agent.isa.declaration import Kind
from nki_agent.isa.enums import Engine, Memory

BUFFER = "buffer"
REGIONS = ", ".join(f"nl.{memory.value}" for memory in Memory)


def check(project: Project) -> Iterator[Diagnostic]:
    """A finding for every literal that must be a constant of `nki`."""
    for call in calls_of(project):
        if call.declaration is not None:
            yield from _check_enums(call)
        elif call.api.module == "nki.language" and BUFFER in call.signature.parameters:
            yield from _check_buffer(call)


def _check_enums(call: Call) -> Iterator[Diagnostic]:
    assert call.declaration is not None
    kinds = {p.name: p for p in call.declaration.parameters}
    for name, value in call.of_kinds(Kind.ENGINE, Kind.ENUM):
        if not isinstance(value, ast.Constant) or type(value.value) not in (int, str):
            continue
        parameter = kinds[name]
        kind = Engine if parameter.kind is Kind.ENGINE else parameter.choices
        member = None if kind is None else _member(kind, value.value)
        yield _report(call, name, value, "nki.isa", member, f"a member of `nisa.{name}`")


def _member(kind: type, value: object) -> str | None:
    """`engine.vector` for its number or its name."""
    if isinstance(value, int):
        return member_of("nki.isa", kind, value)
    return member_of("nki.isa", kind, value, by_name=True)


def _check_buffer(call: Call) -> Iterator[Diagnostic]:
    for name, value in call.arguments:
        if name != BUFFER or not isinstance(value, ast.Constant) or value.value is None:
            continue
        text = value.value if isinstance(value.value, str) else ""
        member = text if text in Memory._value2member_map_ else None
        yield _report(call, name, value, "nki.language", member, REGIONS)


def _report(
    call: Call, name: str, value: ast.Constant, module: str, member: str | None, limit: str
) -> Diagnostic:
    file = call.unit.file
    prefix = file.name_of_module(module)
    short = "nisa" if module == "nki.isa" else "nl"
    edits = (replace_node(file, value, f"{prefix}.{member}"),) if member and prefix else ()
    return call.report(
        "NK308",
        f"`{name}` of `{call.api.short}` is {value.value!r}, but it must be {limit}",
        hint=f"write `{name}={short}.{member}`" if member else f"pass {limit}",
        edits=edits,
    )
