"""NK103: constructs that the NKI compiler does not take, in code that it reads.

Law: what is certainly refused is an error; what the guides are silent on is a warning. Code that
the host runs (module level, functions that no kernel names) may be any Python. Sources: NKI
language guide (values, control flow, classes); migration guide to 0.3.0 (language restrictions).
The guides give no full list; comprehensions, `try`, lambda and generators are in no example. The
body of `nl.fori_loop` and `nl.while_loop` is a function made with `def`, nested or not, in all of
them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.check.parsed import Unit, at
from nki_agent.check.project import Project

CLASS_BASES = ("nki.language.NKIObject", "enum.Enum")
INT_MAX = 2**32 - 1
"""Largest int that 32 bits can hold, unsigned."""
SCOPES = ("nki.language.no_reorder",)


class _Construct(NamedTuple):
    """What a node is called, and what to write."""

    label: str
    hint: str
    severity: Severity = Severity.ERROR


_LOOP = "build the list in a `for` loop with `append`"
_COMPREHENSION = _Construct("a comprehension", _LOOP)
_GENERATOR = _Construct("a generator", "return a list")
_ASYNC = _Construct("`async` code", "write plain code: instructions run side by side on their own")
_TRY = _Construct("`try`", "test the condition with `if` before")

CONSTRUCTS: dict[type[ast.AST], _Construct] = {
    ast.ListComp: _COMPREHENSION,
    ast.SetComp: _COMPREHENSION,
    ast.DictComp: _COMPREHENSION,
    ast.GeneratorExp: _COMPREHENSION,
    ast.Lambda: _Construct("`lambda`", "define a function with `def`"),
    ast.Try: _TRY,
    ast.TryStar: _TRY,
    ast.Yield: _GENERATOR,
    ast.YieldFrom: _GENERATOR,
    ast.Await: _ASYNC,
    ast.AsyncFunctionDef: _ASYNC,
    ast.AsyncFor: _ASYNC,
    ast.AsyncWith: _ASYNC,
    ast.Global: _Construct("`global`", "pass the value as an argument and return the new one"),
    ast.Nonlocal: _Construct("`nonlocal`", "pass the value as an argument and return the new one"),
    ast.Delete: _Construct("`del`", "leave it out: memory is free after the last use"),
    ast.Raise: _Construct("`raise`", "use `assert condition, message`", Severity.WARNING),
    ast.Match: _Construct("`match`", "use `if` and `elif`", Severity.WARNING),
    ast.NamedExpr: _Construct("`:=`", "assign on a line of its own", Severity.WARNING),
    ast.Set: _Construct("a set", "use a tuple or a list", Severity.WARNING),
    ast.Import: _Construct("an import", "import at the top of the file", Severity.WARNING),
    ast.ImportFrom: _Construct("an import", "import at the top of the file", Severity.WARNING),
}
"""Nodes that are outside of the language wherever kernel code has them."""


def check(project: Project) -> Iterator[Diagnostic]:
    """A finding for every construct outside of the language."""
    for unit in project.kernel_units:
        for kind, nodes in unit.nodes.items():
            construct = CONSTRUCTS.get(kind)
            if construct is not None:
                yield from (_outside(unit, node, construct) for node in nodes)
        yield from _check_parts(unit)
        for class_node in unit.all(ast.ClassDef):
            yield from _check_class(unit, class_node)
        if isinstance(unit.definition, ast.ClassDef):
            yield from _check_class(unit, unit.definition)
        elif isinstance(unit.definition, ast.AsyncFunctionDef):
            yield _outside(unit, unit.definition, _ASYNC)
    for unit in project.kernels:
        if isinstance(unit.definition, ast.FunctionDef):
            yield from _check_signature(unit, unit.definition)


def _outside(unit: Unit, node: ast.AST, construct: _Construct) -> Diagnostic:
    certain = construct.severity is Severity.ERROR
    end = "is not part of the NKI language" if certain else "may not be part of the NKI language"
    return at(
        unit,
        node,
        Diagnostic(
            code="NK103",
            what=f"{construct.label} {end}",
            severity=construct.severity,
            hint=construct.hint,
        ),
    )


def _check_parts(unit: Unit) -> Iterator[Diagnostic]:
    for with_node in unit.all(ast.With):
        yield from _check_with(unit, with_node)
    for dict_node in unit.all(ast.Dict):
        yield from _check_keys(unit, dict_node)
    for constant in unit.all(ast.Constant):
        yield from _check_constant(unit, constant)


def _check_keys(unit: Unit, node: ast.Dict) -> Iterator[Diagnostic]:
    """Keys are strings; one that is written out as another literal is surely none."""
    bad = [k for k in node.keys if isinstance(k, ast.Constant) and not isinstance(k.value, str)]
    if bad:
        hint = f"keys are strings: `{str(bad[0].value)!r}` in place of `{bad[0].value!r}`"
        yield _outside(unit, bad[0], _Construct("a dictionary key that is no string", hint))


def _check_constant(unit: Unit, node: ast.Constant) -> Iterator[Diagnostic]:
    """Integers and floats are 32 bits wide; there are no bytes and no complex numbers."""
    value = node.value
    if isinstance(value, bytes | complex):
        hint = "values are None, booleans, ints, floats, strings and tensors"
        kind = type(value).__name__
        yield _outside(unit, node, _Construct(f"a value of type {kind}", hint, Severity.WARNING))
    elif type(value) is int and value > INT_MAX:
        hint = "ints of the language have 32 bits"
        yield _outside(
            unit, node, _Construct(f"an int of {value.bit_length()} bits", hint, Severity.WARNING)
        )


def _check_with(unit: Unit, node: ast.With) -> Iterator[Diagnostic]:
    for item in node.items:
        expression = item.context_expr
        target = expression.func if isinstance(expression, ast.Call) else expression
        if unit.full_name(target) not in SCOPES:
            hint = "only `with nl.no_reorder():` is; write the statements without `with`"
            yield _outside(unit, node, _Construct("`with`", hint))


def _check_class(unit: Unit, node: ast.ClassDef) -> Iterator[Diagnostic]:
    bases = [unit.full_name(base) for base in node.bases]
    if bases and all(base in CLASS_BASES for base in bases) and not node.keywords:
        return
    label = f"class `{node.name}` without base `nl.NKIObject` or `Enum`"
    yield _outside(
        unit, node, _Construct(label, f"write `class {node.name}(nl.NKIObject):`, no other base")
    )


def _check_signature(unit: Unit, node: ast.FunctionDef) -> Iterator[Diagnostic]:
    arguments = node.args
    if arguments.vararg is not None or arguments.kwarg is not None:
        label = "`*args` or `**kwargs` in a kernel's signature"
        yield _outside(unit, node, _Construct(label, "name every argument"))
    if arguments.kwonlyargs:
        names = ", ".join(a.arg for a in arguments.kwonlyargs)
        label = f"`*` before keyword-only arguments ({names}) in a kernel's signature"
        yield _outside(unit, node, _Construct(label, "remove the `*`; put defaults at the end"))
    for default in arguments.defaults:
        if isinstance(default, ast.List):
            label = "a list as an argument of a kernel"
            yield _outside(unit, default, _Construct(label, "use a tuple"))
