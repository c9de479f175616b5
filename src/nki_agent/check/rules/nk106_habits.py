"""NK106 and NK307: forms of the older dialect in a current kernel, with the current form.

`mask=`, `dtype=` on instructions, results taken as tiles, assignment into a tile, NumPy functions
as operators. Law: an edit is carried where it surely keeps the meaning: the destination is a tile
that exists, or the operator has a name in `nl`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic, Edit
from nki_agent.check.call import Call, calls_of
from nki_agent.check.editing import (
    end_of,
    replace,
    replace_node,
    start_of,
    text_between,
    text_of,
)
from nki_agent.check.parsed import Unit, at
from nki_agent.check.project import Project
from nki_agent.check.values import ATTRIBUTES, ValueKind, values_of
from nki_agent.isa.declaration import Kind
from nki_agent.nki.current.modules import MODULES

OLD_KEYWORDS = {
    "mask": "masks are gone: slice every operand to the valid size, `t[:rows, :cols]` with"
    " `rows = min(tile, total - start)`",
    "dtype": "the result is cast to the dtype of `dst`: allocate `dst` with it",
}
"""Keywords of the older dialect and what to write."""

NUMPY_OPS = {
    "max": "maximum",
    "amax": "maximum",
    "min": "minimum",
    "amin": "minimum",
    "sum": "add",
    "prod": "multiply",
    "copy": "copy",
}
"""NumPy functions whose `nl` name is another."""

OTHER_ORDER = frozenset({"affine_select", "dma_copy", "iota", "memset", "nc_stream_shuffle"})
"""Instructions whose arguments are not those of the older dialect behind a `dst`."""

OLD_METHODS = {
    "astype": "`nl.copy(t, dtype=...)`, or `nisa.tensor_copy` into a tile of the wanted dtype",
    "broadcast_to": "`nl.broadcast_to(t, shape)`, or `t.broadcast(dim, size)`",
    "expand_dims": "`t.expand_dim(dim)`",
    "assert_shape": "`assert t.shape == (...)`",
    "T": "`nisa.nc_transpose(dst, data)` through PSUM, or `nl.transpose(t)`",
}
"""Members of tensors that are gone."""


def check(project: Project) -> Iterator[Diagnostic]:
    """A finding for every habit of the older dialect."""
    judged: set[ast.AST] = set()
    for call in calls_of(project):
        yield from _check_old_keywords(call)
        if is_result_taken(call):
            judged.add(call.node)
            yield _report_result(call)
        elif not has_old_form(call):
            yield from _check_operators(call)
    for unit in project.kernel_units:
        for node in unit.all(ast.Assign):
            if node.value not in judged:
                yield from _check_assignment(unit, node)
        for attribute in unit.all(ast.Attribute):
            yield from _check_method(unit, attribute)


def has_old_form(call: Call) -> bool:
    """Whether the call is in the older form as a whole."""
    return bool(_old_keywords(call)) or is_result_taken(call)


def _old_keywords(call: Call) -> list[str]:
    names = call.signature.parameters
    return [k for k in call.keywords if k in OLD_KEYWORDS and k not in names]


def _check_old_keywords(call: Call) -> Iterator[Diagnostic]:
    for keyword in _old_keywords(call):
        what = f"`{keyword}=` of `{call.api.short}` belongs to the older `neuronxcc.nki` dialect"
        yield call.report("NK106", what, hint=OLD_KEYWORDS[keyword])


def is_result_taken(call: Call) -> bool:
    """Whether an instruction without `dst` is used as if it gave a tile."""
    is_value = not isinstance(call.unit.file.parents.get(call.node), ast.Expr)
    return call.declaration is not None and not call.has_spread and is_value and bool(call.missing)


def _report_result(call: Call) -> Diagnostic:
    return call.report(
        "NK106",
        f"`{call.api.short}` returns no tile; it writes to `dst`",
        hint=_with_dst(call),
        edits=() if _old_keywords(call) else _dst_edits(call),
    )


def _with_dst(call: Call) -> str:
    """The call with the assigned name as `dst`, where its source is short."""
    file = call.unit.file
    parent = file.parents.get(call.node)
    target = "dst"
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        target = file.segment(parent.targets[0]) or target
    elif isinstance(parent, ast.AugAssign):
        target = file.segment(parent.target) or target
    kept = [k for k in call.node.keywords if k.arg not in OLD_KEYWORDS]
    arguments = [file.segment(a) for a in (*call.node.args, *kept)]
    if isinstance(parent, ast.AugAssign) and call.api.name == "nc_matmul":
        start = "a matmul adds to what its PSUM tile holds: write"
    elif target.isidentifier():
        start = f"allocate `{target} = nl.ndarray(shape, dtype, buffer=nl.sbuf)`, then write"
    else:
        start = "write"
    first = target if call.node.args else f"dst={target}"
    rest = ["..."] if None in arguments else map(str, arguments)
    return f"{start} `{call.api.short}({', '.join([first, *rest])})`"


def _dst_edits(call: Call) -> tuple[Edit, ...]:
    """`t[...] = nisa.op(x)` to `nisa.op(t[...], x)`; none where `t` may not be a tile."""
    file = call.unit.file
    statement = file.parents.get(call.node)
    target = _assigned_tile(call, statement)
    if target is None or call.api.name in OTHER_ORDER or call.missing[:1] == []:
        return ()
    assert isinstance(statement, ast.Assign | ast.AugAssign)
    sign = text_between(file, end_of(file, target), start_of(file, call.node)).strip()
    paren = _opening(call)
    if sign not in ("=", "+=") or paren is None or not _fits_with_dst(call):
        return ()
    text = text_of(file, target)
    first = f"{text}, " if call.node.args else f"dst={text}, "
    return (
        replace(file, start_of(file, statement), start_of(file, call.node), ""),
        replace(file, paren, paren, first),
    )


def _assigned_tile(call: Call, statement: ast.AST | None) -> ast.expr | None:
    """The tile that exists and that the statement assigns the result to."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        target = statement.target
        if call.api.name != "nc_matmul":
            return None
    else:
        return None
    values = values_of(call.unit)
    if isinstance(target, ast.Name):
        known = values.kind_of(target)
        before = values.was_made_before(target.id, call.node.lineno)
        return target if known is not None and known.is_tensor and before else None
    if not isinstance(target, ast.Subscript):
        return None
    known = values.kind_of(target.value)
    is_tile = (known is not None and known.is_tensor) or _is_tensor_index(target.slice)
    return target if is_tile else None


def _is_tensor_index(index: ast.expr) -> bool:
    """Whether only a tensor can be indexed like this: `[...]`, `[a:b, c]`."""
    if isinstance(index, ast.Constant):
        return index.value is ...
    if not isinstance(index, ast.Tuple):
        return False
    return any(
        isinstance(i, ast.Slice) or (isinstance(i, ast.Constant) and i.value is ...)
        for i in index.elts
    )


def _opening(call: Call) -> tuple[int, int] | None:
    """The place behind the opening parenthesis of a call that has arguments."""
    file = call.unit.file
    line, column = end_of(file, call.node.func)
    text = file.lines[line - 1][column:]
    blanks = len(text) - len(text.lstrip())
    has_arguments = bool(call.node.args or call.node.keywords)
    if not text.lstrip().startswith("(") or not has_arguments:
        return None
    return line, column + blanks + 1


def _fits_with_dst(call: Call) -> bool:
    """Whether the call binds once `dst` is there."""
    names = [k for k in call.keywords if k != "dst"]
    if len(names) != len(call.keywords):
        return False
    try:
        call.signature.bind(None, *call.node.args, **dict.fromkeys(names))
    except TypeError:
        return False
    return True


def _check_operators(call: Call) -> Iterator[Diagnostic]:
    """NumPy functions and strings in the place of an operator."""
    prefix = call.unit.file.name_of_module("nki.language")
    for name, value in call.of_kinds(Kind.ALU_OP, Kind.ACTIVATION_OP):
        full = call.unit.full_name(value)
        if full is not None and full.startswith("numpy."):
            op, kind = full.rpartition(".")[2], "a NumPy function"
        elif isinstance(value, ast.Constant) and isinstance(value.value, str):
            op, kind = value.value, "a string"
        else:
            continue
        op = NUMPY_OPS.get(op, op)
        is_known = op in MODULES["nki.language"]
        yield call.report(
            "NK106" if kind == "a NumPy function" else "NK307",
            f"`{name}` of `{call.api.short}` is {kind}; operators are `nl` names",
            hint=f"write `{name}=nl.{op}`" if is_known else "see the operators of `nki.language`",
            edits=(replace_node(call.unit.file, value, f"{prefix}.{op}"),)
            if is_known and prefix
            else (),
        )


def _check_assignment(unit: Unit, node: ast.Assign) -> Iterator[Diagnostic]:
    """`t[...] = u` where `t` is a tile."""
    values = values_of(unit)
    for target in node.targets:
        if not isinstance(target, ast.Subscript):
            continue
        kind = values.kind_of(target.value)
        if kind is None or not kind.is_tensor:
            continue
        name = unit.file.segment(target.value) or "tile"
        move = _move_for(kind, values.kind_of(node.value))
        yield at(
            unit,
            node,
            Diagnostic(
                code="NK106",
                what=f"assignment into tensor `{name}`: it is no instruction",
                hint=f"write `nisa.{move or 'tensor_copy'}(dst={name}[...], src=...)`; a number is"
                " written with `nisa.memset`",
                edits=_move_edits(unit, node, target, move),
            ),
        )


def _move_for(target: ValueKind, value: ValueKind | None) -> str | None:
    """The instruction that copies between two tensors, where it is clear."""
    if value is None or not value.is_tensor:
        return None
    if target.is_on_chip and value.is_on_chip:
        return "tensor_copy"
    kinds = (target, value)
    if ValueKind.HBM in kinds and ValueKind.PSUM not in kinds and ValueKind.TILE not in kinds:
        return "dma_copy"
    return None


def _move_edits(
    unit: Unit, node: ast.Assign, target: ast.Subscript, move: str | None
) -> tuple[Edit, ...]:
    file = unit.file
    prefix = file.name_of_module("nki.isa")
    sign = text_between(file, end_of(file, target), start_of(file, node.value)).strip()
    if move is None or prefix is None or sign != "=" or len(node.targets) != 1:
        return ()
    if end_of(file, node) != end_of(file, node.value):
        return ()
    text = f"{prefix}.{move}(dst={text_of(file, target)}, src={text_of(file, node.value)})"
    return (replace(file, start_of(file, node), end_of(file, node), text),)


def _check_method(unit: Unit, node: ast.Attribute) -> Iterator[Diagnostic]:
    """Members that a tensor no longer has."""
    if node.attr not in OLD_METHODS or node.attr in ATTRIBUTES:
        return
    kind = values_of(unit).kind_of(node.value)
    if kind is not None and kind.is_tensor:
        what = f"`.{node.attr}` of a tensor belongs to the older `neuronxcc.nki` dialect"
        yield at(
            unit, node, Diagnostic(code="NK106", what=what, hint=f"write {OLD_METHODS[node.attr]}")
        )
