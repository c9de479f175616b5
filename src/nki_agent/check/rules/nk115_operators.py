"""NK115 and NK110: Python operators on tiles, and values asked of tiles and registers.

Law: only names that can hold nothing else are judged; what is not certain is left to the tracer.
An edit is carried for `+`, `-` and `*` between tiles, or a tile and a number.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic, Edit
from nki_agent.check.editing import end_of, replace, replace_node, start_of, text_between, text_of
from nki_agent.check.parsed import Unit, at
from nki_agent.check.project import Project
from nki_agent.check.values import ValueKind, Values, values_of

FUNCTIONS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: ("+", "add"),
    ast.Sub: ("-", "subtract"),
    ast.Mult: ("*", "multiply"),
    ast.Div: ("/", ""),
    ast.Pow: ("**", "power"),
    ast.MatMult: ("@", ""),
    ast.BitAnd: ("&", "bitwise_and"),
    ast.BitOr: ("|", "bitwise_or"),
    ast.BitXor: ("^", "bitwise_xor"),
    ast.LShift: ("<<", "left_shift"),
    ast.RShift: (">>", "right_shift"),
    ast.Lt: ("<", "less"),
    ast.LtE: ("<=", "less_equal"),
    ast.Gt: (">", "greater"),
    ast.GtE: (">=", "greater_equal"),
}
"""Operators with their sign and the function of `nl`."""
OTHER_HINTS = {
    "/": "`nl.multiply(x, nl.reciprocal(y))`",
    "@": "`nisa.nc_matmul(dst, stationary, moving)` into a PSUM tile",
}
MECHANICAL = (ast.Add, ast.Sub, ast.Mult)
CASTS = ("float", "int", "bool", "len")
_TENSOR_HINT = "compute with `nisa` instructions; branch on shapes and static arguments only"
_REGISTER_HINT = (
    "use `nl.while_loop(register, body)` or `nl.fori_loop(lower, upper, body)`; a register can be a"
    " bound or a `scalar_offset`"
)


def check(project: Project) -> Iterator[Diagnostic]:
    """A finding for every operator on a tile, and for every value that is not there."""
    for unit in project.kernel_units:
        values = values_of(unit)
        for node in unit.all(ast.BinOp):
            yield from _check_binary(unit, node, values)
        for augmented in unit.all(ast.AugAssign):
            yield from _check_augmented(unit, augmented, values)
        for compare in unit.all(ast.Compare):
            yield from _check_compare(unit, compare, values)
        yield from _check_values(unit, values)


def _check_binary(unit: Unit, node: ast.BinOp, values: Values) -> Iterator[Diagnostic]:
    kinds = values.kind_of(node.left), values.kind_of(node.right)
    if not any(kind is not None and kind.is_tensor for kind in kinds):
        return
    sides = (node.left, node.right)
    clear = all(
        (k is not None and k.is_tensor) or _is_number(s) for k, s in zip(kinds, sides, strict=True)
    )
    prefix = unit.file.name_of_module("nki.language")
    edits: tuple[Edit, ...] = ()
    if clear and prefix is not None and isinstance(node.op, MECHANICAL):
        left, right = (_plain_text(unit, side) for side in sides)
        if left and right:
            text = f"{prefix}.{FUNCTIONS[type(node.op)][1]}({left}, {right})"
            edits = (replace_node(unit.file, node, text),)
    yield _operator(unit, node, node.op, edits)


def _plain_text(unit: Unit, node: ast.expr) -> str:
    """The source of one side, where it stands on one line."""
    text = text_of(unit.file, node)
    return "" if "\n" in text else text


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _operator(unit: Unit, node: ast.AST, op: ast.AST, edits: tuple[Edit, ...] = ()) -> Diagnostic:
    sign, function = FUNCTIONS.get(type(op), ("arithmetic", ""))
    hint = OTHER_HINTS.get(sign, f"`nl.{function}(x, y)`" if function else "a function of `nl`")
    return at(
        unit,
        node,
        Diagnostic(
            code="NK115",
            what=f"operator `{sign}` on a tile",
            hint=f"use {hint} or the matching `nisa` instruction",
            edits=edits,
        ),
    )


def _check_augmented(unit: Unit, node: ast.AugAssign, values: Values) -> Iterator[Diagnostic]:
    full = unit.full_name(node.value.func) if isinstance(node.value, ast.Call) else None
    kind = values.kind_of(node.target)
    if (full is not None and full.startswith("nki.isa.")) or kind is None or not kind.is_tensor:
        return
    yield _operator(unit, node, node.op, _accumulate(unit, node, kind, values))


def _accumulate(
    unit: Unit, node: ast.AugAssign, kind: ValueKind, values: Values
) -> tuple[Edit, ...]:
    """`acc += t` as one instruction in place."""
    file = unit.file
    prefix, language = file.name_of_module("nki.isa"), file.name_of_module("nki.language")
    if prefix is None or language is None or not isinstance(node.op, MECHANICAL):
        return ()
    if not kind.is_on_chip or "\n" in text_of(file, node.value):
        return ()
    between = text_between(file, end_of(file, node.target), start_of(file, node.value)).strip()
    if between.rstrip("=") not in "+-*" or end_of(file, node) != end_of(file, node.value):
        return ()
    tile, value = text_of(file, node.target), text_of(file, node.value)
    op = f"{language}.{FUNCTIONS[type(node.op)][1]}"
    other = values.kind_of(node.value)
    if _is_number(node.value):
        text = f"{prefix}.tensor_scalar(dst={tile}, data={tile}, op0={op}, operand0={value})"
    elif other is not None and other.is_on_chip and ValueKind.SBUF in (kind, other):
        text = f"{prefix}.tensor_tensor(dst={tile}, data1={tile}, data2={value}, op={op})"
    else:
        return ()
    return (replace(file, start_of(file, node), end_of(file, node), text),)


def _check_compare(unit: Unit, node: ast.Compare, values: Values) -> Iterator[Diagnostic]:
    sides = [node.left, *node.comparators]
    for op, left, right in zip(node.ops, sides[:-1], sides[1:], strict=True):
        kinds = values.kind_of(left), values.kind_of(right)
        if type(op) in FUNCTIONS and any(kind is not None and kind.is_tensor for kind in kinds):
            yield _operator(unit, node, op)


def _check_values(unit: Unit, values: Values) -> Iterator[Diagnostic]:
    """Truth values, casts and ranges of what has no value while tracing."""
    tests: list[ast.If | ast.While | ast.IfExp] = [
        *unit.all(ast.If),
        *unit.all(ast.While),
        *unit.all(ast.IfExp),
    ]
    for node in tests:
        test = node.test
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test = test.operand
        yield from _no_value(unit, node, values.kind_of(test), "truth value")
    for loop in unit.all(ast.For):
        yield from _no_value(unit, loop, values.kind_of(loop.iter), "iteration")
    for call in unit.all(ast.Call):
        if len(call.args) == 1 and unit.is_builtin(call.func, *CASTS):
            assert isinstance(call.func, ast.Name)
            kind = values.kind_of(call.args[0])
            yield from _no_value(unit, call, kind, f"{call.func.id}()")
        elif unit.is_builtin(call.func, "range"):
            for bound in call.args:
                yield from _no_value(unit, call, values.kind_of(bound), "range()")


def _no_value(unit: Unit, node: ast.AST, kind: ValueKind | None, what: str) -> Iterator[Diagnostic]:
    if kind is None:
        return
    noun = "tensor" if kind.is_tensor else "register"
    hint = _TENSOR_HINT if kind.is_tensor else _REGISTER_HINT
    if what == "len()" and kind.is_tensor:
        hint = "use `tensor.shape[0]`"
    finding = Diagnostic(
        code="NK110", what=f"{what} of a {noun}: it has no value while tracing", hint=hint
    )
    yield at(unit, node, finding)
