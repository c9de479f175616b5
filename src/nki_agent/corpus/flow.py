"""Reads the flow of a pattern: lines such as `gate, up = halves(linear(x))`.

Law: a flow has calls of operators and names of values, and nothing else of Python. A `?` after an
operator's name says that the step may be left out, which gives back its first operand.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

_MAYBE = "__maybe"
_OPTIONAL = re.compile(r"(\w+)\?\(")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An operator, or one of a set, on the values of its operands."""

    name: str
    operands: tuple[Call | str, ...]
    optional: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """`targets = value`."""

    targets: tuple[str, ...]
    value: Call


def read_flow(text: str) -> tuple[Line, ...]:
    """The lines of a flow; ValueError says what is not one."""
    try:
        body = ast.parse(_OPTIONAL.sub(rf"\1{_MAYBE}(", text.strip())).body
    except SyntaxError as error:
        raise ValueError(f"line {error.lineno} cannot be read") from error
    return tuple(_read_line(statement) for statement in body)


def _read_line(statement: ast.stmt) -> Line:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
            return Line(targets=(name,), value=_read_call(call))
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call() as call):
            targets = tuple(n.id for n in names if isinstance(n, ast.Name))
            return Line(targets=targets, value=_read_call(call))
        case _:
            raise ValueError(f"`{ast.unparse(statement)}` is no assignment of a call")


def _read_call(call: ast.Call) -> Call:
    if not isinstance(call.func, ast.Name) or call.keywords:
        raise ValueError(f"`{ast.unparse(call)}` is no call of an operator")
    name = call.func.id
    return Call(
        name=name.removesuffix(_MAYBE),
        operands=tuple(_read_operand(node) for node in call.args),
        optional=name.endswith(_MAYBE),
    )


def _read_operand(node: ast.expr) -> Call | str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Call():
            return _read_call(node)
        case _:
            raise ValueError(f"`{ast.unparse(node)}` is neither a value nor a call")


def names_called(lines: tuple[Line, ...]) -> Iterator[str]:
    """Names of operators and sets in the order in which they are written."""
    for line in lines:
        yield from _names_in(line.value)


def _names_in(call: Call) -> Iterator[str]:
    for operand in call.operands:
        if isinstance(operand, Call):
            yield from _names_in(operand)
    yield call.name
