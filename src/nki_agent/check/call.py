"""One call of a public function, resolved; what the rules about calls share."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from nki_agent.base.diagnostic import Diagnostic, Edit
from nki_agent.check.api import ApiName, find_api_name, find_signature, show_signature
from nki_agent.check.parsed import Unit, at
from nki_agent.check.project import Project
from nki_agent.isa.declaration import Declaration, Kind
from nki_agent.isa.table import TABLE


@dataclass(frozen=True, eq=False)
class Call:
    """One call, resolved to a public function."""

    unit: Unit
    node: ast.Call
    api: ApiName
    signature: inspect.Signature

    @cached_property
    def declaration(self) -> Declaration | None:
        """The instruction of `nki.isa` that is called, if it is one."""
        return TABLE.get(self.api.name) if self.api.module == "nki.isa" else None

    @cached_property
    def keywords(self) -> list[str]:
        """Keywords that the call names."""
        return [k.arg for k in self.node.keywords if k.arg is not None]

    @cached_property
    def has_spread(self) -> bool:
        """Whether arguments come from `*` or `**`."""
        starred = any(isinstance(a, ast.Starred) for a in self.node.args)
        return starred or any(k.arg is None for k in self.node.keywords)

    @cached_property
    def missing(self) -> list[str]:
        """Required parameters that the call leaves out."""
        parameters = list(self.signature.parameters.values())
        given = {p.name for p in parameters[: len(self.node.args)]} | set(self.keywords)
        return [p.name for p in parameters if _is_required(p) and p.name not in given]

    @cached_property
    def arguments(self) -> list[tuple[str, ast.expr]]:
        """Values by the name of their parameter; spread ones are left out."""
        if any(isinstance(a, ast.Starred) for a in self.node.args):
            return []
        found = list(zip(self.signature.parameters, self.node.args, strict=False))
        return found + [(k.arg, k.value) for k in self.node.keywords if k.arg is not None]

    def of_kinds(self, *kinds: Kind) -> Iterator[tuple[str, ast.expr]]:
        """Values of an instruction's parameters of these kinds."""
        parameters = self.declaration.parameters if self.declaration is not None else ()
        wanted = {p.name for p in parameters if p.kind in kinds}
        return ((name, value) for name, value in self.arguments if name in wanted)

    def report(
        self, code: str, what: str, *, hint: str = "", edits: tuple[Edit, ...] = ()
    ) -> Diagnostic:
        """A finding at the call's line."""
        shown = f"the signature is `{show_signature(self.api, self.signature)}`"
        finding = Diagnostic(code=code, what=what, hint=hint or shown, edits=edits)
        return at(self.unit, self.node, finding)


def _is_required(parameter: inspect.Parameter) -> bool:
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return parameter.default is inspect.Parameter.empty and parameter.kind not in variadic


def calls_of(project: Project) -> tuple[Call, ...]:
    """Every direct call of a public function in code that can run; several rules ask."""
    main = project.main
    if not isinstance(main.calls, tuple):
        main.calls = tuple(_find_calls(project))
    return main.calls


def _find_calls(project: Project) -> Iterator[Call]:
    for unit in project.live_units:
        for node in unit.all(ast.Call):
            api = find_api_name(unit.full_name(node.func))
            signature = None if api is None else find_signature(api)
            if api is not None and signature is not None:
                yield Call(unit, node, api, signature)
