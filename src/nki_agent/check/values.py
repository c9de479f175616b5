"""Which names of a function can only hold a tile, or a register.

Law: a name is known if every place that binds it, in the function and in those nested in it, makes
the same kind of thing; anything else is unknown and no rule judges it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import StrEnum

from nki_agent.check.api import ApiName, find_api_name
from nki_agent.check.parsed import DEFINITIONS, Unit, imports_of
from nki_agent.isa.table import TABLE
from nki_agent.nki.current.modules import PUBLIC, SIGNATURES
from nki_agent.nki.current.tensor import NkiTensor
from nki_agent.nki.current.values import OPERATOR_OF

ROUNDS_MAX = 4
"""Views of views of tiles that are followed."""


NAMED: tuple[type[ast.AST], ...] = (*DEFINITIONS, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
"""Nodes that bind their `name`."""


class ValueKind(StrEnum):
    """What a name holds."""

    SBUF = "sbuf"
    PSUM = "psum"
    HBM = "hbm"
    TILE = "tile"
    REGISTER = "register"

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor, wherever it lies."""
        return self is not ValueKind.REGISTER

    @property
    def is_on_chip(self) -> bool:
        """Whether it is surely in SBUF or PSUM."""
        return self in (ValueKind.SBUF, ValueKind.PSUM)


ALLOCATIONS = frozenset({"ndarray", "zeros", "ones", "full", "rand", "zeros_like", "empty_like"})
LIKE = frozenset({"zeros_like", "empty_like"})
"""Allocations whose memory is their argument's where none is given."""
NO_VIEWS = frozenset({"is_contiguous", "is_indirect", "get_pattern"})
VIEWS = frozenset(
    name
    for name in dir(NkiTensor)
    if not name.startswith("_") and callable(getattr(NkiTensor, name)) and name not in NO_VIEWS
)
"""Methods of a tensor that give a view of it."""
ATTRIBUTES = frozenset(name for name in dir(NkiTensor) if not name.startswith("_"))
"""Public attributes and methods of a tensor."""
SBUF_TILES = frozenset(
    {"load", "copy", "softmax", "rms_norm", "sum", "max", "min", "mean", "prod", "var", "all"}
)
PSUM_TILES = frozenset({"matmul", "transpose"})
OTHER_TILES = frozenset({"where", "load_transpose2d", "dropout", "negative", "expand_dims"})
_MEMORIES = {
    "sbuf": ValueKind.SBUF,
    "psum": ValueKind.PSUM,
    "hbm": ValueKind.HBM,
    "private_hbm": ValueKind.HBM,
    "shared_hbm": ValueKind.HBM,
}
_OPERATORS = frozenset(OPERATOR_OF.values())


class Values:
    """The kinds of one unit's names and expressions."""

    def __init__(self, unit: Unit) -> None:
        """Look at every binding of the unit."""
        self._unit = unit
        self._kinds: dict[str, ValueKind] = {}
        self._first_line: dict[str, int] = {}
        unknown = set(_bound_otherwise(unit))
        bindings = [b for b in _assignments(unit) if b[0] not in unknown]
        for _ in range(ROUNDS_MAX):
            before = dict(self._kinds)
            self._settle(bindings)
            if self._kinds == before:
                break

    def _settle(self, bindings: list[tuple[str, ast.expr]]) -> None:
        found: dict[str, set[ValueKind | None]] = {}
        for name, value in bindings:
            if not self._is_old_result(value):
                kind = self.kind_of(value)
                found.setdefault(name, set()).add(kind)
                if kind is not None:
                    line = self._first_line.get(name, value.lineno)
                    self._first_line[name] = min(line, value.lineno)
        self._kinds = {}
        for name, kinds in found.items():
            certain = {kind for kind in kinds if kind is not None}
            if len(certain) == len(kinds) == 1:
                self._kinds[name] = certain.pop()
            elif len(certain) == len(kinds) and all(kind.is_tensor for kind in certain):
                self._kinds[name] = ValueKind.TILE

    def kind_of(self, node: ast.expr) -> ValueKind | None:
        """What an expression gives; None where that is not known."""
        match node:
            case ast.Name(id=name):
                return self._kinds.get(name)
            case ast.Subscript(value=ast.expr() as value):
                return _as_tensor(self.kind_of(value))
            case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in VIEWS:
                kind = _as_tensor(self.kind_of(value))
                return kind if kind is not None else self._kind_of_call(node)
            case ast.Call():
                return self._kind_of_call(node)
            case _:
                return None

    def was_made_before(self, name: str, line: int) -> bool:
        """Whether a line above makes what the name holds."""
        return name in self._kinds and self._first_line.get(name, line) < line

    def _is_old_result(self, node: ast.expr) -> bool:
        """Whether this is an instruction's result, which the older dialect took for a tile."""
        api = self._api(node.func) if isinstance(node, ast.Call) else None
        return api is not None and api.module == "nki.isa" and api.name in TABLE

    def _api(self, node: ast.expr) -> ApiName | None:
        api = find_api_name(self._unit.full_name(node))
        return None if api is None or api.members else api

    def _kind_of_call(self, node: ast.Call) -> ValueKind | None:
        api = self._api(node.func)
        if api is None:
            return None
        if api.full == "nki.isa.register_alloc":
            return ValueKind.REGISTER
        if api.module != "nki.language" or not callable(PUBLIC[api.module].get(api.name)):
            return None
        if api.name in ALLOCATIONS:
            return self._memory_of(node, api)
        if api.name in SBUF_TILES or api.name in _OPERATORS:
            return ValueKind.SBUF
        if api.name in PSUM_TILES:
            return ValueKind.PSUM
        return ValueKind.TILE if api.name in OTHER_TILES else None

    def _memory_of(self, node: ast.Call, api: ApiName) -> ValueKind:
        given = [keyword.value for keyword in node.keywords if keyword.arg == "buffer"]
        names = list(SIGNATURES[api.full].parameters) if api.full in SIGNATURES else []
        if not given and "buffer" in names and len(node.args) > names.index("buffer"):
            given = [node.args[names.index("buffer")]]
        if not given:
            return ValueKind.TILE if api.name in LIKE else ValueKind.SBUF
        memory = self._api(given[0])
        found = _MEMORIES.get(memory.name) if memory is not None else None
        return ValueKind.TILE if found is None else found


def _as_tensor(kind: ValueKind | None) -> ValueKind | None:
    return kind if kind is not None and kind.is_tensor else None


def values_of(unit: Unit) -> Values:
    """The values of a unit, worked out once."""
    if unit.values is None:
        unit.values = Values(unit)
    assert isinstance(unit.values, Values)
    return unit.values


def _assignments(unit: Unit) -> Iterator[tuple[str, ast.expr]]:
    """Plain assignments of a value to a name."""
    for node in unit.all(ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value
    for annotated in unit.all(ast.AnnAssign):
        if isinstance(annotated.target, ast.Name) and annotated.value is not None:
            yield annotated.target.id, annotated.value


def _bound_otherwise(unit: Unit) -> Iterator[str]:
    """Names that anything but a plain or an augmented assignment binds."""
    parents = unit.file.parents
    for node in unit.all(ast.Name):
        if isinstance(node.ctx, ast.Load):
            continue
        parent = parents.get(node)
        plain = isinstance(parent, ast.Assign | ast.AnnAssign | ast.AugAssign)
        if not plain or (isinstance(parent, ast.AnnAssign) and parent.value is None):
            yield node.id
    if isinstance(unit.definition, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from (a.arg for a in ast.walk(unit.definition.args) if isinstance(a, ast.arg))
    yield from (argument.arg for argument in unit.all(ast.arg))
    for kind in NAMED:
        yield from (getattr(node, "name", None) or "" for node in unit.all(kind))
    for statement in imports_of(unit):
        yield from ((a.asname or a.name).partition(".")[0] for a in statement.names)
    for scope in (ast.Global, ast.Nonlocal):
        yield from (name for node in unit.all(scope) for name in getattr(node, "names", ()))
