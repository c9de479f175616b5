"""NK105 and NK106: direct calls of `nisa`, `nl` and `nki` functions fit their signatures.

Law: a call whose arguments are spread from `*` or `**` is only checked for what can be seen. A call
in the older form (result assigned, `mask=`, `dtype=`, NumPy functions as operators) is `NK106`,
with the new form.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.check.api import ApiName, find_api_name, find_signature, show_signature, suggest
from nki_agent.check.parsed import Unit, at
from nki_agent.check.project import Project
from nki_agent.isa.declaration import Kind
from nki_agent.isa.table import TABLE

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
}
"""NumPy functions whose `nl` name is another."""


@dataclass(frozen=True, slots=True)
class _Call:
    """One call, resolved to a public function."""

    unit: Unit
    node: ast.Call
    api: ApiName
    signature: inspect.Signature

    @property
    def is_instruction(self) -> bool:
        """Whether it is an instruction of `nki.isa`."""
        return self.api.module == "nki.isa" and self.api.name in TABLE

    @property
    def keywords(self) -> list[str]:
        """Keywords that the call names."""
        return [k.arg for k in self.node.keywords if k.arg is not None]

    @property
    def has_spread(self) -> bool:
        """Whether arguments come from `*` or `**`."""
        starred = any(isinstance(a, ast.Starred) for a in self.node.args)
        return starred or any(k.arg is None for k in self.node.keywords)

    def report(self, code: str, what: str, *, hint: str = "") -> Diagnostic:
        """A finding at the call's line."""
        shown = f"the signature is `{show_signature(self.api, self.signature)}`"
        finding = Diagnostic(code=code, what=what, hint=hint or shown)
        return at(self.unit, self.node, finding)


def check(project: Project) -> Iterator[Diagnostic]:
    """A finding for every call that does not fit."""
    for unit in project.live_units:
        for node in unit.all(ast.Call):
            api = find_api_name(unit.full_name(node.func))
            signature = None if api is None else find_signature(api)
            if api is not None and signature is not None:
                yield from _check_call(_Call(unit, node, api, signature))


def _check_call(call: _Call) -> Iterator[Diagnostic]:
    old = list(_check_old_form(call))
    if old:
        yield from old
        return
    yield from _check_keywords(call)
    yield from _check_counts(call)
    yield from _check_operators(call)


def _check_old_form(call: _Call) -> Iterator[Diagnostic]:
    names = call.signature.parameters
    for keyword in call.keywords:
        if keyword in OLD_KEYWORDS and keyword not in names:
            what = (
                f"`{keyword}=` of `{call.api.short}` belongs to the older `neuronxcc.nki` dialect"
            )
            yield call.report("NK106", what, hint=OLD_KEYWORDS[keyword])
    if call.is_instruction and not call.has_spread and _is_value(call) and _missing(call):
        yield call.report(
            "NK106",
            f"`{call.api.short}` returns no tile; it writes to `dst`",
            hint=_with_dst(call),
        )


def _is_value(call: _Call) -> bool:
    return not isinstance(call.unit.file.parents.get(call.node), ast.Expr)


def _missing(call: _Call) -> list[str]:
    """Required parameters that the call leaves out."""
    parameters = list(call.signature.parameters.values())
    given = {p.name for p in parameters[: len(call.node.args)]} | set(call.keywords)
    return [p.name for p in parameters if _is_required(p) and p.name not in given]


def _is_required(parameter: inspect.Parameter) -> bool:
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return parameter.default is inspect.Parameter.empty and parameter.kind not in variadic


def _with_dst(call: _Call) -> str:
    """The call with the assigned name as `dst`, where its source is short."""
    parent = call.unit.file.parents.get(call.node)
    target = "dst"
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        target = call.unit.file.segment(parent.targets[0]) or target
    arguments = [call.unit.file.segment(a) for a in (*call.node.args, *call.node.keywords)]
    if target.isidentifier():
        start = f"allocate `{target} = nl.ndarray(shape, dtype, buffer=nl.sbuf)`, then write"
    else:
        start = "write"
    first = target if call.node.args else f"dst={target}"
    rest = ["..."] if None in arguments else map(str, arguments)
    return f"{start} `{call.api.short}({', '.join([first, *rest])})`"


def _check_keywords(call: _Call) -> Iterator[Diagnostic]:
    parameters = call.signature.parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return
    by_position = list(parameters)[: len(call.node.args)]
    for keyword in call.keywords:
        if keyword not in parameters:
            near = suggest(keyword, parameters, prefix="")
            shown = f"the signature is `{show_signature(call.api, call.signature)}`"
            yield call.report(
                "NK105",
                f"`{call.api.short}` has no argument `{keyword}`",
                hint=f"{near} {shown}".strip(),
            )
        elif keyword in by_position and not call.has_spread:
            what = f"`{call.api.short}` gets `{keyword}` twice, by position and by name"
            yield call.report("NK105", what)


def _check_counts(call: _Call) -> Iterator[Diagnostic]:
    if call.has_spread:
        return
    parameters = call.signature.parameters.values()
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return
    if len(call.node.args) > len(parameters):
        what = f"`{call.api.short}` takes {len(parameters)} arguments, not {len(call.node.args)}"
        yield call.report("NK105", what)
        return
    missing = _missing(call)
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        yield call.report("NK105", f"`{call.api.short}` lacks {names}")


def _check_operators(call: _Call) -> Iterator[Diagnostic]:
    """NumPy functions in the place of an operator."""
    declaration = TABLE.get(call.api.name) if call.is_instruction else None
    if declaration is None:
        return
    kinds = (Kind.ALU_OP, Kind.ACTIVATION_OP)
    wanted = {p.name for p in declaration.parameters if p.kind in kinds}
    names = list(call.signature.parameters)
    given = [*zip(names, call.node.args, strict=False)]
    given += [(k.arg, k.value) for k in call.node.keywords if k.arg is not None]
    for name, value in given:
        full = call.unit.full_name(value)
        if name in wanted and full is not None and full.startswith("numpy."):
            op = full.rpartition(".")[2]
            yield call.report(
                "NK106",
                f"`{name}` of `{call.api.short}` is a NumPy function; operators are `nl` names",
                hint=f"write `{name}=nl.{NUMPY_OPS.get(op, op)}`",
            )
