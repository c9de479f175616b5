"""The files of one kernel, and which of their code can run while it is traced.

Law: a unit is live if it stands at module level or a live unit names it; it is kernel code if a jit
function names it, directly or through others. Code that nothing names is never judged: it cannot
run. What finds code by other means than its name is a trick, and `nk903_tampering` reports it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.check.parsed import ParsedFile, SourceError, Unit, parse_file
from nki_agent.chip.spec import Target

JIT_NAMES = ("nki.jit", "nki.trace", "nki.baremetal", "nki.benchmark", "nki.profile")
"""Decorators of kernels, the older dialect's included."""
MAIN_MODULE = ""


@dataclass(frozen=True, slots=True, eq=False)
class Project:
    """The parsed files, the main one first."""

    files: tuple[ParsedFile, ...]
    target: Target
    entry: str | None
    """The entry's name, where one is asked for."""
    kernels: tuple[Unit, ...]
    """Jit functions of the main file."""
    kernel_units: tuple[Unit, ...]
    """Code that the NKI compiler reads."""
    live_units: tuple[Unit, ...]
    """Code that runs when the kernel file is imported and traced, kernel code included."""
    module_names: frozenset[str]
    """Names that helper modules and their packages are imported by."""

    @property
    def main(self) -> ParsedFile:
        """The kernel file."""
        return self.files[0]


def parse_project(
    files: Mapping[str, str], main: str, *, target: Target, entry: str | None
) -> tuple[Project | None, list[Diagnostic]]:
    """Parse every Python file; no Project where the main one does not parse."""
    findings: list[Diagnostic] = []
    parsed: list[ParsedFile] = []
    others = sorted(name for name in files if name != main and name.endswith(".py"))
    for name in [main, *others]:
        module = MAIN_MODULE if name == main else module_name_of(name)
        try:
            parsed.append(parse_file(name, files[name], module_name=module))
        except SourceError as error:
            findings.append(error.finding)
            if name == main:
                return None, findings
    names = {module_name_of(name) for name in others}
    parts = [name.split(".") for name in names]
    packages = {".".join(part[:end]) for part in parts for end in range(1, len(part))}
    kernels = [unit for file in parsed for unit in _jit_units(file)]
    kernel_units, live_units = _find_reached(parsed, kernels)
    project = Project(
        files=tuple(parsed),
        target=target,
        entry=entry,
        kernels=tuple(unit for unit in kernels if unit.file is parsed[0]),
        kernel_units=kernel_units,
        live_units=live_units,
        module_names=frozenset(names | packages),
    )
    return project, findings


def module_name_of(file_name: str) -> str:
    """The name that a helper file is imported by."""
    return file_name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _find_reached(
    files: Sequence[ParsedFile], kernels: Sequence[Unit]
) -> tuple[tuple[Unit, ...], tuple[Unit, ...]]:
    """Kernel code, and all code that can run."""
    reach = _Reach(files)
    kernel_units = reach.from_units(kernels)
    live = reach.from_units(unit for file in files for unit in _runs_at_import(file))
    seen = set(map(id, live))
    return tuple(kernel_units), (*live, *(u for u in kernel_units if id(u) not in seen))


def _jit_units(file: ParsedFile) -> Iterator[Unit]:
    """Functions that `@nki.jit` decorates, or that are passed to `nki.jit(...)`."""
    passed = {
        argument.id
        for node in file.module.all(ast.Call)
        if file.module.full_name(node.func) in JIT_NAMES
        for argument in node.args
        if isinstance(argument, ast.Name)
    }
    for unit in file.units.values():
        if not isinstance(unit.definition, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        decorators = unit.definition.decorator_list
        if unit.name in passed or any(_is_jit(file, decorator) for decorator in decorators):
            yield unit


def _is_jit(file: ParsedFile, decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return file.module.full_name(target) in JIT_NAMES


def _runs_at_import(file: ParsedFile) -> Iterator[Unit]:
    """The module's statements, classes (their bodies run), and what a decorator is given."""
    yield file.module
    for unit in file.units.values():
        definition = unit.definition
        if isinstance(definition, ast.ClassDef) or (definition and definition.decorator_list):
            yield unit


class _Reach:
    """Follows names from unit to unit."""

    def __init__(self, files: Sequence[ParsedFile]) -> None:
        self._has_helpers = len(files) > 1
        self._by_name = {
            f"{file.module_name}.{unit.name}" if file.module_name else f".{unit.name}": unit
            for file in files
            for unit in file.units.values()
        }

    def from_units(self, start: Iterable[Unit]) -> list[Unit]:
        """The units that these name, and so on, themselves included."""
        found: dict[int, Unit] = {}
        stack = list(start)
        while stack:
            unit = stack.pop()
            if id(unit) in found:
                continue
            found[id(unit)] = unit
            stack.extend(self._named_by(unit))
        return list(found.values())

    def _named_by(self, unit: Unit) -> Iterator[Unit]:
        own = unit.file.units
        hidden = unit.bound if unit.name else ()
        for name in unit.all(ast.Name):
            if name.id in own and name.id not in hidden and isinstance(name.ctx, ast.Load):
                yield own[name.id]
        if not self._has_helpers:
            return
        for node in (*unit.all(ast.Name), *unit.all(ast.Attribute)):
            full = unit.full_name(node)
            if full is not None and full in self._by_name:
                yield self._by_name[full]
