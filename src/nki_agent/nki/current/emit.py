"""The functions of `nki.isa`, generated from the table of declarations.

Each function has the vendor's signature. Its fast path looks a call up by the forms of its operands
and its attributes; only a signature that is new to the trace is bound, checked and recorded in
full.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from nki_agent.isa.declaration import REQUIRED, Call, Declaration, Kind, Parameter
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine
from nki_agent.isa.rules import check_call
from nki_agent.isa.signature import SCALAR_PATTERN, AttributeValue, Operand, Signature
from nki_agent.isa.table import TABLE
from nki_agent.nki.current.recorder import STATE, fail, fail_with, operand_of, require_recorder
from nki_agent.nki.current.tensor import NkiTensor
from nki_agent.nki.current.values import BY_ENGINE, BY_MEANING, OPERATOR_OF, Member
from nki_agent.program.records import Instruction


class NkiInstruction:
    """The handle that an instruction returns."""

    __slots__ = ("_op",)

    def __init__(self, op: str) -> None:
        """`op` names the instruction, for messages."""
        self._op = op

    def depends_on(self, *others: object) -> None:
        """Explicit ordering; not modelled."""
        fail(
            "NK114",
            f"`depends_on` of `{self._op}` is not modelled",
            hint="instructions keep their program order where their data overlaps",
        )


def default_of(parameter: Parameter) -> object:
    """The default in the public signature, as kernels see it."""
    if parameter.kind is Kind.ENGINE:
        return BY_ENGINE[parameter.default]
    if parameter.kind is Kind.ENUM:
        return BY_MEANING[parameter.default]
    if parameter.kind is Kind.ALU_OP and isinstance(parameter.default, str):
        by_name = {name: function for function, name in OPERATOR_OF.items()}
        return by_name[parameter.default]
    return parameter.default


def make_functions() -> dict[str, Callable[..., NkiInstruction]]:
    """Every declared instruction as a function; `language` has registered its operators."""
    return {name: _make_function(declaration) for name, declaration in TABLE.items()}


def _make_function(declaration: Declaration) -> Callable[..., NkiInstruction]:
    namespace: dict[str, Any] = {
        "STATE": STATE,
        "T": NkiTensor,
        "I": Instruction,
        "getframe": sys._getframe,
        "DECLARATION": declaration,
        "HANDLE": NkiInstruction(declaration.name),
        "slow": _signature_of,
        "number": number,
        "list_key": _list_key,
    }
    arguments = []
    for parameter in declaration.parameters:
        if parameter.is_optional:
            namespace[f"D_{parameter.name}"] = default_of(parameter)
            arguments.append(f"{parameter.name}=D_{parameter.name}")
        else:
            arguments.append(parameter.name)
    source = _source(declaration, arguments)
    code = compile(source, __file__, "exec")
    exec(code, namespace)
    function: Callable[..., NkiInstruction] = namespace[declaration.name]
    function.__doc__ = f"`{declaration.page}`; see docs/reference."
    return function


def _source(declaration: Declaration, arguments: list[str]) -> str:
    name = declaration.name
    key = ", ".join([str(declaration.index), *(_key_part(p) for p in declaration.parameters)])
    values = ", ".join(p.name for p in declaration.parameters)
    lines = [
        f"def {name}({', '.join(arguments)}, name=None):",
        "    r = STATE.recorder",
        "    try:",
        f"        s = r.known.get(({key}))",
        "    except (AttributeError, TypeError):",
        "        s = None",
        "    if s is None:",
        f"        s = slow(DECLARATION, ({values},))",
        "        r = STATE.recorder",
        *_binding_lines(declaration),
        "    return HANDLE",
    ]
    return "\n".join(lines) + "\n"


def _is_plain(parameter: Parameter) -> bool:
    """Whether the parameter always holds a tensor."""
    required = parameter.default is REQUIRED
    return parameter.kind in (Kind.OUTPUT, Kind.INPUT, Kind.UPDATE) and required


def _key_part(parameter: Parameter) -> str:
    name = parameter.name
    if _is_plain(parameter):
        return f"{name}._form"
    if parameter.kind is Kind.INPUTS:
        return f"list_key({name})"
    if parameter.is_tensor:
        return f"({name}._form if type({name}) is T else type({name}))"
    if parameter.kind is Kind.VALUE:
        return f"type({name})"
    return name


def _list_key(values: object) -> object:
    """What makes two lists of tensors the same call; TypeError for anything else."""
    if not isinstance(values, list | tuple):
        raise TypeError
    return tuple(v._form for v in values if isinstance(v, NkiTensor))


def _binding_lines(declaration: Declaration) -> list[str]:
    parameters = declaration.tensor_parameters
    append = "    r.body.append(I(s, {tensors}, {offsets}, {immediates}, r.stack_id(getframe(1))))"
    if all(_is_plain(p) for p in parameters):
        tensors = "".join(f"{p.name}._tensor, " for p in parameters)
        offsets = "".join(f"{p.name}._offset, " for p in parameters)
        return [append.format(tensors=f"({tensors})", offsets=f"({offsets})", immediates="()")]
    lines = ["    ts = []", "    os = []", "    im = []"]
    for parameter in parameters:
        name = parameter.name
        if _is_plain(parameter):
            lines += [f"    ts.append({name}._tensor)", f"    os.append({name}._offset)"]
            continue
        if parameter.kind is Kind.INPUTS:
            lines += [f"    ts.extend(v._tensor for v in {name})"]
            lines += [f"    os.extend(v._offset for v in {name})"]
            continue
        lines += [
            f"    if type({name}) is T:",
            f"        ts.append({name}._tensor)",
            f"        os.append({name}._offset)",
            f"    elif {name} is not None:",
            f"        im.append({name} if type({name}) in (int, float) else number({name}))",
        ]
    return [*lines, append.format(tensors="tuple(ts)", offsets="tuple(os)", immediates="tuple(im)")]


def _signature_of(declaration: Declaration, values: tuple[object, ...]) -> int:
    """Bind, check and record a call that the trace has not seen; the signature's id."""
    recorder = require_recorder(f"nisa.{declaration.name}")
    operands: list[Operand] = []
    attributes: dict[str, AttributeValue] = {}
    engine: Engine | None = None
    key: list[object] = [declaration.index]
    for parameter, value in zip(declaration.parameters, values, strict=True):
        where = f"`{parameter.name}` of `nisa.{declaration.name}`"
        if parameter.kind is Kind.INPUTS:
            operands += _operand_list(parameter, value, where)
            key.append(_list_key(value))
        elif parameter.is_tensor or parameter.kind is Kind.VALUE:
            operand = _operand(parameter, value, where)
            operands += [] if operand is None else [operand]
            key.append(value._form if isinstance(value, NkiTensor) else type(value))
        else:
            key.append(value)
            if parameter.kind is Kind.ENGINE:
                engine = _engine(value, where)
            else:
                attributes[parameter.name] = _attribute(parameter, value, where)
    if "axis" in attributes:
        attributes["axis"] = _axes(attributes["axis"], operands)
    signature = Signature(declaration.name, tuple(attributes.items()), engine, tuple(operands))
    for finding in check_call(Call(declaration, signature, recorder.chip)):
        fail_with(finding)
    number = recorder.signature_id(signature)
    # A list among the attributes has no hash: such calls take this path each time.
    with suppress(TypeError):
        recorder.known[tuple(key)] = number
    return number


def _operand_list(parameter: Parameter, value: object, where: str) -> list[Operand]:
    if not isinstance(value, list | tuple) or not all(isinstance(v, NkiTensor) for v in value):
        fail("NK308", where, got=_describe(value), limit="a list of tensors")
    return [operand_of(f"{parameter.name}{i}", v._form) for i, v in enumerate(value)]


def _operand(parameter: Parameter, value: object, where: str) -> Operand | None:
    if type(value) is NkiTensor:
        if parameter.kind is Kind.VALUE:
            fail("NK308", where, got="a tensor", limit="a number")
        return operand_of(parameter.name, value._form)
    if value is None and parameter.is_optional:
        return None
    if parameter.kind in (Kind.SCALAR, Kind.VALUE):
        dtype = DType.INT32 if isinstance(number(value, where), int) else DType.FLOAT32
        return Operand(parameter.name, None, dtype, SCALAR_PATTERN)
    hint = "pass a tile: `nl.ndarray(shape, dtype, buffer=nl.sbuf)`"
    fail("NK308", where, got=_describe(value), limit="a tensor", hint=hint)


def number(value: object, where: str = "immediate") -> int | float:
    """A Python number from what a kernel passes as an immediate (NumPy scalars included)."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float):
        return int(value) if isinstance(value, int) else float(value)
    dtype = getattr(value, "dtype", None)
    if dtype is not None and getattr(value, "ndim", None) == 0:
        result = value.item()  # type: ignore[attr-defined]
        return result if isinstance(result, int) else float(result)
    fail("NK308", where, got=_describe(value), limit="a number or a tile of shape (P, 1)")


def _describe(value: object) -> str:
    text = repr(value) if isinstance(value, int | float | str | Member) else type(value).__name__
    return text[:80]


def _engine(value: object, where: str) -> Engine | None:
    if not isinstance(value, Member) or value.enum != "engine":
        fail("NK308", where, got=_describe(value), limit="a member of `nisa.engine`")
    return value.meaning if isinstance(value.meaning, Engine) else None


def _attribute(parameter: Parameter, value: object, where: str) -> AttributeValue:
    if value is None and parameter.default is None:
        return None
    match parameter.kind:
        case Kind.ALU_OP | Kind.ACTIVATION_OP:
            return _operator_name(value, where)
        case Kind.FLAG:
            return _flag(value, where)
        case Kind.INT:
            return number(value, where)
        case Kind.AXES | Kind.INTS:
            items = value if isinstance(value, tuple | list) else (value,)
            return tuple(_integer(v, where) for v in items)
        case Kind.AFFINE_PATTERN:
            return _affine_pattern(value, where)
        case Kind.ENUM:
            return _enum(parameter, value, where)
        case (
            Kind.OUTPUT
            | Kind.INPUT
            | Kind.INPUTS
            | Kind.UPDATE
            | Kind.SCALAR
            | Kind.VALUE
            | Kind.ENGINE
        ):
            raise AssertionError(parameter.kind)


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool | int):
        fail("NK308", where, got=_describe(value), limit="True or False")
    return bool(value)


def _enum(parameter: Parameter, value: object, where: str) -> str:
    if not isinstance(value, Member) or BY_MEANING.get(value.meaning) is not value:
        choices = parameter.choices.__name__ if parameter.choices else "enum"
        fail("NK308", where, got=_describe(value), limit=f"a member of the {choices} enum")
    return str(value.meaning)


def _operator_name(value: object, where: str) -> str:
    try:
        name = OPERATOR_OF.get(value)
    except TypeError:
        name = None
    if name is None:
        fail(
            "NK307",
            where,
            got=getattr(value, "__name__", _describe(value)),
            limit="an operator of `nki.language`",
            hint="pass the function itself, such as `nl.add` or `nl.exp`; NumPy functions are the"
            " older dialect",
        )
    return name


def _integer(value: object, where: str) -> int:
    result = number(value, where)
    if isinstance(result, float):
        if not result.is_integer():
            fail("NK308", where, got=str(result), limit="an int")
        return int(result)
    return result


def _affine_pattern(value: object, where: str) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list | tuple) or not all(
        isinstance(p, list | tuple) and len(p) == len(("step", "count")) for p in value
    ):
        fail("NK308", where, got=_describe(value), limit="[[step, count], ...]")
    return tuple(tuple(_integer(v, where) for v in pair) for pair in value)


def _axes(axes: AttributeValue, operands: list[Operand]) -> AttributeValue:
    """Negative axes count from the end of `data`."""
    data = next((o for o in operands if o.role == "data"), None)
    if data is None or not isinstance(axes, tuple):
        return axes
    rank = len(data.shape)
    numbers = (a for a in axes if isinstance(a, int))
    return tuple(sorted(a + rank if a < 0 else a for a in numbers))
