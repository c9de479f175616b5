"""The functions of `nki.isa`, generated from the table of declarations.

Each function has the vendor's signature. Its fast path looks a call up by the forms of its operands
and its attributes; only a signature that is new to the trace is bound, checked and recorded in
full.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from nki_agent.isa.declaration import (
    LIST_KINDS,
    OFFSET_SUFFIX,
    REQUIRED,
    Call,
    Declaration,
    Kind,
    Parameter,
)
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine, OobMode
from nki_agent.isa.rules import check_call
from nki_agent.isa.signature import SCALAR_PATTERN, AttributeValue, Operand, Signature
from nki_agent.isa.table import TABLE
from nki_agent.nki.current.recorder import STATE, fail, fail_with, operand_of, require_recorder
from nki_agent.nki.current.register import VirtualRegister
from nki_agent.nki.current.tensor import NkiTensor
from nki_agent.nki.current.values import BY_ENGINE, BY_MEANING, OPERATOR_OF, Member
from nki_agent.program.records import Detail, Dynamic, Instruction


class NkiInstruction(int):
    """The handle that an instruction returns: its number in its core's program order."""

    __slots__ = ()

    def depends_on(self, *producers: object) -> NkiInstruction:
        """Let this instruction wait for others that do not share data with it.

        Both must lie in the same body: an order into or out of a run-time loop cannot be kept.
        """
        numbers = []
        for producer in producers:
            if not isinstance(producer, NkiInstruction):
                got = type(producer).__name__
                fail("NK308", "argument of `depends_on`", got=got, limit="an instruction's handle")
            numbers.append(int(producer))
        require_recorder("depends_on").add_order(int(self), tuple(numbers))
        return self


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
        "H": NkiInstruction,
        "slow": _record_slowly,
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
    label = ["name=None"] if declaration.has_name else []
    head = f"def {name}({', '.join([*arguments, *label])}):"
    if declaration.register_parameters:
        return f"{head}\n    return slow(DECLARATION, ({values},), getframe(1))\n"
    lines = [
        head,
        "    r = STATE.recorder",
        "    try:",
        f"        s = r.known.get(({key}))",
        "    except (AttributeError, TypeError):",
        "        s = None",
        "    if s is None:",
        f"        return slow(DECLARATION, ({values},), getframe(1))",
        *_binding_lines(declaration),
        "    n = r.num_instructions",
        "    if n >= r.instructions_max:",
        "        r.stop_too_large()",
        "    r.num_instructions = n + 1",
        "    return H(n)",
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
    if parameter.kind in LIST_KINDS:
        return f"list_key({name})"
    if parameter.is_tensor:
        return f"({name}._form if type({name}) is T else type({name}))"
    if parameter.kind in (Kind.VALUE, Kind.WORD):
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
        if parameter.kind in LIST_KINDS:
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


class _Bound:
    """The parts of a call that is recorded for the first time."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.operands: list[Operand] = []
        self.tensors: list[NkiTensor] = []
        self.immediates: list[int | float] = []
        self.registers: list[int] = []
        self.attributes: dict[str, AttributeValue] = {}
        self.engine: Engine | None = None
        self.key: list[object] | None = [declaration.index]

    def add(self, parameter: Parameter, value: object) -> None:
        """Bind one argument."""
        where = f"`{parameter.name}` of `nisa.{self.declaration.name}`"
        key: object = value
        if parameter.kind in LIST_KINDS:
            self._add_list(parameter, value, where)
            key = _list_key(value)
        elif parameter.kind in (Kind.REGISTER, Kind.WORD) and isinstance(value, VirtualRegister):
            is_dst = parameter.kind is Kind.REGISTER and parameter.name == "dst"
            self.registers.append(value.require_writable() if is_dst else value.number)
            self.key = None
        elif parameter.kind is Kind.REGISTER:
            fail("NK308", where, got=_describe(value), limit="a register of `nisa.register_alloc`")
        elif parameter.is_tensor or parameter.kind in (Kind.VALUE, Kind.WORD):
            self._add_operand(parameter, value, where)
            key = value._form if isinstance(value, NkiTensor) else type(value)
        elif parameter.kind is Kind.ENGINE:
            self.engine = _engine(value, where)
        else:
            self.attributes[parameter.name] = _attribute(parameter, value, where)
        if self.key is not None:
            self.key.append(key)

    def _add_list(self, parameter: Parameter, value: object, where: str) -> None:
        if not isinstance(value, list | tuple):
            fail("NK308", where, got=_describe(value), limit="a list of tensors")
        for number_, item in enumerate(value):
            if not isinstance(item, NkiTensor):
                fail("NK308", where, got=_describe(item), limit="a list of tensors")
            self._add_tensor(f"{parameter.name}{number_}", item)

    def _add_operand(self, parameter: Parameter, value: object, where: str) -> None:
        if type(value) is NkiTensor:
            if parameter.kind in (Kind.VALUE, Kind.WORD):
                fail("NK308", where, got="a tensor", limit="a number")
            self._add_tensor(parameter.name, value)
        elif value is None and parameter.is_optional:
            return
        elif parameter.kind in (Kind.SCALAR, Kind.VALUE, Kind.WORD):
            plain = number(value, where)
            dtype = DType.INT32 if isinstance(plain, int) else DType.FLOAT32
            if parameter.kind is Kind.WORD and dtype is not DType.INT32:
                fail("NK308", where, got=_describe(value), limit="an int or a register")
            self.operands.append(Operand(parameter.name, None, dtype, SCALAR_PATTERN))
            self.immediates.append(plain)
        else:
            hint = "pass a tile: `nl.ndarray(shape, dtype, buffer=nl.sbuf)`"
            fail("NK308", where, got=_describe(value), limit="a tensor", hint=hint)

    def _add_tensor(self, role: str, tensor: NkiTensor) -> None:
        self.operands.append(operand_of(role, tensor._static_form))
        self.tensors.append(tensor)
        if tensor._dynamic is not None:
            self.key = None

    def detail(self) -> Detail | None:
        """Registers and run-time offsets; the tensors of offsets become operands."""
        dynamic = []
        oob = self.attributes.get("oob_mode", OobMode.ERROR.value)
        for position, tensor in enumerate(list(self.tensors)):
            move = tensor._dynamic
            if move is None:
                continue
            register = None
            if isinstance(move.source, VirtualRegister):
                register = move.source.number
            else:
                role = [o for o in self.operands if not o.is_immediate][position].role
                if move.source.is_indirect():
                    what = f"tile of offsets of `{role}` of `nisa.{self.declaration.name}`"
                    hint = "copy the offsets to a tile of their own first"
                    fail("NK210", what, got="a view that moves at run time itself", hint=hint)
                self._add_tensor(f"{role}{OFFSET_SUFFIX}", move.source)
            mode = OobMode(str(oob))
            dynamic.append(Dynamic(position, move.kind, register, move.stride_bytes, mode))
        if not dynamic and not self.registers:
            return None
        return Detail(dynamic=tuple(dynamic), registers=tuple(self.registers))


def _record_slowly(
    declaration: Declaration, values: tuple[object, ...], frame: FrameType
) -> NkiInstruction:
    """Bind, check and record a call whose signature the trace has not seen, or that is dynamic."""
    recorder = require_recorder(f"nisa.{declaration.name}")
    bound = _Bound(declaration)
    for parameter, value in zip(declaration.parameters, values, strict=True):
        bound.add(parameter, value)
    if "axis" in bound.attributes:
        bound.attributes["axis"] = _axes(bound.attributes["axis"], bound.operands)
    detail = bound.detail()
    signature = Signature(
        declaration.name, tuple(bound.attributes.items()), bound.engine, tuple(bound.operands)
    )
    for finding in check_call(Call(declaration, signature, recorder.chip)):
        fail_with(finding)
    index = recorder.signature_id(signature)
    if bound.key is not None:
        # A list among the attributes has no hash: such calls take this path each time.
        with suppress(TypeError):
            recorder.known[tuple(bound.key)] = index
    recorder.body.append(
        Instruction(
            index,
            tuple(t._tensor for t in bound.tensors),
            tuple(t._offset for t in bound.tensors),
            tuple(bound.immediates),
            recorder.stack_id(frame),
            detail,
        )
    )
    if recorder.num_instructions >= recorder.instructions_max:
        recorder.stop_too_large()
    recorder.num_instructions += 1
    return NkiInstruction(recorder.num_instructions - 1)


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
        case Kind.AFFINE_PATTERN | Kind.GROUPS:
            return _nested(parameter.kind, value, where)
        case Kind.ENUM:
            return _enum(parameter, value, where)
        case Kind.TEXT:
            return _text(value, where)
        case (
            Kind.OUTPUT
            | Kind.INPUT
            | Kind.INPUTS
            | Kind.OUTPUTS
            | Kind.UPDATE
            | Kind.SCALAR
            | Kind.VALUE
            | Kind.WORD
            | Kind.REGISTER
            | Kind.ENGINE
        ):
            raise AssertionError(parameter.kind)


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        fail("NK308", where, got=_describe(value), limit="a string that is known while tracing")
    return value


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


def _nested(kind: Kind, value: object, where: str) -> tuple[tuple[int, ...], ...]:
    """Lists of ints as tuples; in a pattern each is a pair."""
    limit = "[[step, count], ...]" if kind is Kind.AFFINE_PATTERN else "[[rank, ...], ...]"
    lists = value if isinstance(value, list | tuple) else (None,)
    for item in lists:
        pair = kind is not Kind.AFFINE_PATTERN or (
            isinstance(item, list | tuple) and len(item) == 2
        )
        if not isinstance(item, list | tuple) or not pair:
            fail("NK308", where, got=_describe(value), limit=limit)
    return tuple(tuple(_integer(v, where) for v in item) for item in lists)


def _axes(axes: AttributeValue, operands: list[Operand]) -> AttributeValue:
    """Negative axes count from the end of `data`."""
    data = next((o for o in operands if o.role == "data"), None)
    if data is None or not isinstance(axes, tuple):
        return axes
    rank = len(data.shape)
    numbers = (a for a in axes if isinstance(a, int))
    return tuple(sorted(a + rank if a < 0 else a for a in numbers))
