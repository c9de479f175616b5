"""BackendBench: lists of operators, each with the arguments of the calls that models made.

    Operator: aten.add.Tensor
    cnt: 156, ((T([1, 512, 768], f16), T([1, 512, 768], f16)), {})

Law: one task for each different call. Arguments are read as data and never run; a tensor becomes an
input of the task, and everything else stands in the call as it was.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from nki_agent.bench.importers.draft import Draft, make_slug
from nki_agent.bench.importers.kernelbench import make_templates
from nki_agent.bench.importers.listing import Listing

DTYPES: Final = {
    "bf16": "bfloat16",
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "b8": "bool",
    "c32": "complex32",
    "c64": "complex64",
    "c128": "complex128",
}
PLACES: Final = frozenset({"device", "layout", "pin_memory", "non_blocking"})
"""Arguments that say where a tensor lies; a task's tensors lie where the judge puts them."""
RENAMED: Final = {"aten.sum.SymInt": "aten.sum.dim_IntList"}
"""Names of older PyTorch that such lists still have."""
POSITIVE: Final = frozenset(
    {
        *("acos", "asin", "atanh", "binary_cross_entropy", "digamma", "erfinv", "lgamma", "log"),
        *("log10", "log1p", "log2", "logit", "native_batch_norm", "pow", "rsqrt", "sqrt", "xlogy"),
    }
)
"""Drawn between 0 and 1, as that suite draws everything; others have both signs, or a kernel for
`relu` could hand back its input."""
CATEGORY: Final = "operator"
LINE_LENGTH_MAX: Final = 100_000
_OPERATOR: Final = re.compile(r"Operator:\s*(\S+)\s*$")
_CALL: Final = re.compile(r"cnt:\s*(\d+),\s*(.*)$")
_NAME: Final = re.compile(r"aten\.[A-Za-z_]\w*(\.[A-Za-z_]\w*)?")


class UnreadableError(Exception):
    """The arguments are not of the format."""


def count_backendbench(listing: Listing) -> int:
    """Files that list operators."""
    return sum(
        bool(re.search(r"^Operator: ", text, re.MULTILINE))
        for text in listing.named(".txt").values()
    )


def read_backendbench(listing: Listing) -> list[Draft]:
    """One draft for each different call of every list."""
    drafts = []
    for path, text in listing.named(".txt").items():
        operator, seen = "", dict[tuple[str, str], int]()
        for number, line in enumerate(text.splitlines(), 1):
            if match := _OPERATOR.match(line):
                operator = RENAMED.get(match[1], match[1])
            elif match := _CALL.match(line):
                key = (operator, match[2])
                if key not in seen:
                    seen[key] = number
                    drafts.append(_draft(operator, match, origin=f"{path}:{number}"))
    return drafts


def _draft(operator: str, match: re.Match[str], *, origin: str) -> Draft:
    task_id = make_slug(operator.removeprefix("aten."))
    try:
        if not _NAME.fullmatch(operator):
            raise UnreadableError(f"`{operator}` names no operator of aten")
        call = read_call(match[2])
        text = write_task(operator, call, count=int(match[1]))
    except UnreadableError as error:
        return Draft(id=task_id, origin=origin, category=CATEGORY, problem=str(error))
    return Draft(
        id=task_id,
        origin=origin,
        templates=make_templates(text),
        category=CATEGORY,
        notes=tuple(dict.fromkeys(call.notes)),
    )


@dataclass(slots=True)
class Call:
    """A call as Python: its arguments as text, and the tensors among them."""

    arguments: list[str] = field(default_factory=list)
    tensors: list[tuple[tuple[int, ...], str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_call(text: str) -> Call:
    """Read `((positional, ...), {'name': value})`.

    Raises:
        UnreadableError: it has another form.
    """
    if len(text) > LINE_LENGTH_MAX:
        raise UnreadableError(f"the arguments are longer than {LINE_LENGTH_MAX} characters")
    try:
        tree = ast.parse(text.strip().strip("'\""), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnreadableError(f"the arguments cannot be read: {error}") from error
    match tree:
        case ast.Tuple(elts=[ast.Tuple(elts=positional), ast.Dict(keys=keys, values=values)]):
            call = Call()
            call.arguments += [_write(node, call) for node in positional]
            for key, value in zip(keys, values, strict=True):
                call.arguments += _write_named(key, value, call)
            return call
        case _:
            raise UnreadableError("the arguments are no pair of a tuple and a mapping")


def _write_named(key: ast.expr | None, value: ast.expr, call: Call) -> Iterator[str]:
    name = key.value if isinstance(key, ast.Constant) else None
    if not isinstance(name, str) or not name.isidentifier():
        raise UnreadableError("an argument has no name")
    if name in PLACES:
        call.notes.append(f"the argument `{name}` is left out")
        return
    yield f"{name}={_write(value, call)}"


def _write(node: ast.expr, call: Call) -> str:
    """One argument as Python text; tensors become names of inputs."""
    match node:
        case ast.Call(func=ast.Name(id="T"), args=[ast.List() as shape, dtype, *rest]):
            return _add_tensor(shape, dtype, call, is_strided=bool(rest))
        case ast.List(elts=items):
            return f"[{', '.join(_write(item, call) for item in items)}]"
        case ast.Tuple(elts=items):
            return f"({''.join(_write(item, call) + ', ' for item in items)})"
        case ast.Constant(value=str(name)) if name in DTYPES:
            return f"torch.{DTYPES[name]}"
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return repr(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"-{_write(operand, call)}"
        case ast.Name(id=name) if name in DTYPES:
            return f"torch.{DTYPES[name]}"
        case ast.Name(id="inf"):
            return 'float("inf")'
        case ast.Attribute(value=ast.Name(id="torch" | "th"), attr=name):
            return f"torch.{name}"
        case _:
            raise UnreadableError(f"`{ast.unparse(node)[:80]}` is no argument that can be read")


def _add_tensor(shape: ast.List, dtype: ast.expr, call: Call, *, is_strided: bool) -> str:
    sizes = []
    for item in shape.elts:
        if not isinstance(item, ast.Constant) or type(item.value) is not int or item.value < 0:
            raise UnreadableError(f"`{ast.unparse(shape)[:80]}` is no shape")
        sizes.append(item.value)
    name = ast.unparse(dtype).strip("'\"")
    if name not in DTYPES:
        raise UnreadableError(f"`{name[:80]}` is no dtype")
    if is_strided:
        call.notes.append("strided tensors are taken as contiguous ones")
    if name == "f64":
        call.notes.append("float64 is narrowed to float32, since the chip has none")
        name = "f32"
    call.tensors.append((tuple(sizes), DTYPES[name]))
    return f"x{len(call.tensors) - 1}"


def write_task(operator: str, call: Call, *, count: int) -> str:
    """The task of one call.

    Raises:
        UnreadableError: it has no tensor.
    """
    if not call.tensors:
        raise UnreadableError("no argument of it is a tensor")
    names = [f"x{index}" for index in range(len(call.tensors))]
    full = operator if operator.count(".") > 1 else f"{operator}.default"
    expression = f"torch.ops.{full}({', '.join(call.arguments)})"
    below = _index_bound(call)
    base = full.split(".")[1]
    real = "rand" if base.strip("_") in POSITIVE else "randn"
    drawn = [_draw(shape, dtype, below=below, real=real) for shape, dtype in call.tensors]
    if base.endswith("_") and not base.endswith("__"):
        updates, body = ['UPDATES = ("x0",)', ""], f"    {expression}"
    else:
        updates, body = [], f"    return {expression}"
    lines = [
        f'"""{full}: a call that was counted {count} times."""',
        "",
        "import torch",
        "",
        *updates,
        "",
        "def inputs():",
        "    return [",
        *(f"        {text}," for text in drawn),
        "    ]",
        "",
        "",
        f"def reference({', '.join(names)}):",
        body,
        "",
    ]
    return "\n".join(lines)


def _index_bound(call: Call) -> int:
    """Integers may be indices: they stay below every size of the other tensors."""
    sizes = [
        size
        for shape, dtype in call.tensors
        if not dtype.startswith(("int", "uint", "bool"))
        for size in shape
        if size > 1
    ]
    return min(sizes, default=2)


def _draw(shape: tuple[int, ...], dtype: str, *, below: int, real: str) -> str:
    sizes = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
    if math.prod(shape) == 0:
        raise UnreadableError(f"a tensor is empty: its shape is {list(shape)}")
    if dtype == "bool":
        return f"torch.rand({sizes}) > 0.5"
    if dtype.startswith(("int", "uint")):
        return f"torch.randint(0, {below}, {sizes}, dtype=torch.{dtype})"
    return f"torch.{real}({sizes}, dtype=torch.{dtype})"
