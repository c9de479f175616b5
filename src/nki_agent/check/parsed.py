"""One source file as units of code: the module's own statements, and each function and class in it.

Law: no recursion, so nesting of any depth that the parser takes is walked. A function nested in
another belongs to the outer one. What stands under `if __name__ == "__main__"` never runs here and
is left out.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from nki_agent.base.diagnostic import Diagnostic, Frame, clean

SOURCE_CHARS_MAX = 2**18
"""A longer file is refused before it is parsed: it would take seconds, and no kernel is so long."""
DOTS_MAX = 16
"""Longer chains of attributes are no name of a module."""
SEGMENT_CHARS_MAX = 100
"""Longest piece of source that a message repeats."""

Node = TypeVar("Node", bound=ast.AST)
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
NO_CHILDREN = frozenset({"arg", "attr", "ctx", "id", "kind", "names", "op", "ops", "type_comment"})
"""Fields that hold no node that a rule asks for."""
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class SourceError(Exception):
    """A file that does not parse, with the finding that says so."""

    def __init__(self, finding: Diagnostic) -> None:
        """Keep the finding."""
        super().__init__(finding.what)
        self.finding = finding


@dataclass(slots=True, eq=False)
class Unit:
    """Code that runs together: a module's statements, a function's body, or a class."""

    file: ParsedFile
    name: str
    """Empty for the module's own statements."""
    definition: FunctionNode | ast.ClassDef | None
    nodes: dict[type[ast.AST], list[ast.AST]] = field(default_factory=dict)
    """Every node by its type, in source order; contexts and operators are left out."""
    bound: set[str] = field(default_factory=set)
    """Names that the unit binds itself."""
    values: object = None
    """What `check.values` has found out about the names, once it was asked."""
    names: object = None
    """The names of `nki` in it, once a rule has asked for them."""

    def all(self, kind: type[Node]) -> list[Node]:
        """Every node of one type, in source order."""
        return self.nodes.get(kind, [])  # type: ignore[return-value]

    def full_name(self, node: ast.AST) -> str | None:
        """`nki.language.exp` for `nl.exp`; None where the root is no imported name.

        Names of the older dialect, `neuronxcc.nki`, are given as if they were the current one's.
        """
        names = self.file.full_names
        if node not in names:
            names[node] = self.find_full_name(node)
        return names[node]

    def find_full_name(self, node: ast.AST) -> str | None:
        """The same, worked out anew: for use while aliases are still being found."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute) and len(parts) < DOTS_MAX:
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or (self.name and node.id in self.bound):
            return None
        root = self.file.aliases.get(node.id)
        if root is None:
            return None
        full = ".".join([root, *reversed(parts)])
        return full.removeprefix("neuronxcc.") if full.startswith("neuronxcc.nki") else full

    def is_builtin(self, node: ast.AST, *names: str) -> bool:
        """Whether a node is one of these built-in names, not bound to something else."""
        if not isinstance(node, ast.Name) or node.id not in names:
            return False
        known = self.bound | self.file.module.bound | self.file.aliases.keys()
        return node.id not in known and node.id not in self.file.units


@dataclass(slots=True, eq=False)
class ParsedFile:
    """A parsed file, its units, and what its imported names stand for."""

    name: str
    module_name: str
    """The name that other files import it by; empty for the main file."""
    lines: list[str]
    aliases: dict[str, str] = field(default_factory=dict)
    units: dict[str, Unit] = field(default_factory=dict)
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    full_names: dict[ast.AST, str | None] = field(default_factory=dict)
    """Answers of `Unit.full_name` so far."""
    calls: object = None
    """Of the main file: the project's calls of `nki`, once a rule has asked for them."""
    module: Unit = field(init=False)

    def name_of_module(self, full: str) -> str | None:
        """What the file calls an imported module everywhere: `nl` for `nki.language`."""
        for node in imports_of(self.module):
            for name, target in _imported_names(self, node):
                if target.removeprefix("neuronxcc.") == full and name not in self.module.bound:
                    return name
        return None

    def segment(self, node: ast.AST) -> str | None:
        """The source of a short expression that lies on one line."""
        line = getattr(node, "lineno", None)
        end_line, end = getattr(node, "end_lineno", None), getattr(node, "end_col_offset", 0)
        if line is None or line != end_line or line > len(self.lines):
            return None
        start = node.col_offset  # type: ignore[attr-defined]
        if end - start > SEGMENT_CHARS_MAX or len(self.lines[line - 1]) > SOURCE_CHARS_MAX:
            return None
        text: str = self.lines[line - 1].encode()[start:end].decode(errors="replace")
        return text


def parse_file(name: str, source: str, *, module_name: str) -> ParsedFile:
    """Parse one file; SourceError where it is no Python."""
    tree = _parse(name, source)
    parsed = ParsedFile(name=name, module_name=module_name, lines=source.split("\n"))
    parsed.module = Unit(parsed, "", None)
    _split(parsed, tree)
    _find_aliases(parsed)
    return parsed


def _parse(name: str, source: str) -> ast.Module:
    if len(source) > SOURCE_CHARS_MAX:
        what, line = "length of the file", 1
        got, limit = f"{len(source)} characters", f"{SOURCE_CHARS_MAX}"
    else:
        got = limit = ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(source)
        except SyntaxError as error:
            what, line = f"syntax error: {error.msg}", error.lineno or 1
        except RecursionError:
            what, line = "expressions are nested too deep", 1
        except MemoryError:
            what, line = "the parser ran out of stack", 1
        except ValueError as error:  # null bytes, lone surrogates
            what, line = f"the text is no source: {error}", 1
    raise SourceError(
        Diagnostic(
            code="NK101",
            what=clean(what),
            got=got,
            limit=limit,
            where=(Frame(clean(name), line, ""),),
            hint="fix the syntax; the file must parse as Python",
        )
    )


def _split(parsed: ParsedFile, tree: ast.Module) -> None:
    """Give every node to its unit."""
    stack: list[tuple[ast.AST, Unit]] = [(tree, parsed.module)]
    while stack:
        node, unit = stack.pop()
        kind = type(node)
        alike = unit.nodes.get(kind)
        if alike is None:
            unit.nodes[kind] = [node]
        else:
            alike.append(node)
        bind = _BINDERS.get(kind)
        if bind is not None:
            bind(unit, node)
        if kind is not ast.Name and kind is not ast.Constant:
            children = _children(parsed, node, unit)
            stack += children[::-1]


_CHILD_FIELDS = {
    kind: tuple(name for name in kind._fields if name not in NO_CHILDREN)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}


def _children(parsed: ParsedFile, node: ast.AST, unit: Unit) -> list[tuple[ast.AST, Unit]]:
    """Nodes right below a node, each with the unit that it belongs to."""
    inner: Unit | None = unit
    if unit is parsed.module:
        if isinstance(node, DEFINITIONS):
            inner = _unit_of(parsed, node)
        elif isinstance(node, ast.If) and _is_main_guard(node):
            inner = None
    parents = parsed.parents
    children: list[tuple[ast.AST, Unit]] = []
    for name in _CHILD_FIELDS[type(node)]:
        value = getattr(node, name, None)
        if isinstance(value, list):
            owner = inner if name == "body" else unit
            if owner is not None:
                for child in value:
                    if isinstance(child, ast.AST):
                        parents[child] = node
                        children.append((child, owner))
        elif isinstance(value, ast.AST):
            parents[value] = node
            children.append((value, unit))
    return children


def _unit_of(parsed: ParsedFile, node: FunctionNode | ast.ClassDef) -> Unit:
    unit = parsed.units.setdefault(node.name, Unit(parsed, node.name, node))
    unit.definition = node
    if not isinstance(node, ast.ClassDef):
        unit.bound.update(a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg))
    return unit


def _is_main_guard(node: ast.If) -> bool:
    test = node.test
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
        and len(test.comparators) == 1
        and isinstance(test.ops[0], ast.Eq)
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value == "__main__"
    )


def _bind_name(unit: Unit, node: ast.AST) -> None:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        unit.bound.add(node.id)


def _bind_definition(unit: Unit, node: ast.AST) -> None:
    if isinstance(node, DEFINITIONS) and unit.name:
        unit.bound.add(node.name)


def _bind_argument(unit: Unit, node: ast.AST) -> None:
    if isinstance(node, ast.arg) and unit.name:
        unit.bound.add(node.arg)


def _bind_error(unit: Unit, node: ast.AST) -> None:
    if isinstance(node, ast.ExceptHandler) and node.name:
        unit.bound.add(node.name)


_BINDERS: dict[type[ast.AST], Callable[[Unit, ast.AST], None]] = {
    ast.Name: _bind_name,
    ast.FunctionDef: _bind_definition,
    ast.AsyncFunctionDef: _bind_definition,
    ast.ClassDef: _bind_definition,
    ast.arg: _bind_argument,
    ast.ExceptHandler: _bind_error,
}


def _find_aliases(parsed: ParsedFile) -> None:
    """What each imported name stands for, wherever in the file it is imported."""
    aliases = parsed.aliases
    for unit in (parsed.module, *parsed.units.values()):
        for node in imports_of(unit):
            aliases.update(_imported_names(parsed, node))
    for assignment in parsed.module.all(ast.Assign):
        if isinstance(assignment.value, ast.Name | ast.Attribute):
            full = parsed.module.find_full_name(assignment.value)
            for target in assignment.targets:
                if full is not None and isinstance(target, ast.Name):
                    aliases.setdefault(target.id, full)


def imports_of(unit: Unit) -> list[ast.Import | ast.ImportFrom]:
    """Every import statement of a unit."""
    return [*unit.all(ast.Import), *unit.all(ast.ImportFrom)]


def _imported_names(
    parsed: ParsedFile, node: ast.Import | ast.ImportFrom
) -> Iterator[tuple[str, str]]:
    """Names that an import binds, with what they stand for."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            name = alias.asname or alias.name
            full = f"{imported_module(parsed, node)}.{alias.name}"
        else:
            name = alias.asname or alias.name.partition(".")[0]
            full = alias.name if alias.asname else name
        yield name, full


def imported_module(parsed: ParsedFile, node: ast.ImportFrom) -> str:
    """The absolute name of the module that a `from` import reads."""
    if not node.level:
        return node.module or ""
    package = parsed.module_name.split(".")
    is_package = parsed.name.endswith("/__init__.py")
    keep = len(package) - node.level + (1 if is_package else 0)
    parts = package[: max(keep, 0)] + ([node.module] if node.module else [])
    return ".".join(parts)


def at(unit: Unit, node: ast.AST, finding: Diagnostic) -> Diagnostic:
    """A finding placed at a node's line; what it took from the source is cleaned."""
    line = getattr(node, "lineno", 1)
    return msgspec.structs.replace(
        finding,
        where=(Frame(clean(unit.file.name), line, clean(unit.name)),),
        what=clean(finding.what),
        got=clean(finding.got),
        limit=clean(finding.limit),
        hint=clean(finding.hint),
    )
