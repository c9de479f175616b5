"""A kernel's source with its syntax tree: finds places, and changes them without touching the rest.

Law: a change replaces bytes of the source; everything else stays as it was written. Positions are
those of `ast`, which counts bytes.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """Bytes from `start` to `end` become `text`."""

    start: int
    end: int
    text: str


class KernelText:
    """One kernel file, parsed."""

    def __init__(self, source: str) -> None:
        """Parse it; SyntaxError where it is no Python."""
        self.source = source
        self.tree = ast.parse(source)
        self._data = source.encode()
        lines = self._data.splitlines(keepends=True)
        self._starts = [0, *itertools.accumulate(map(len, lines))]
        self._parents = {
            child: parent
            for parent in ast.walk(self.tree)
            for child in ast.iter_child_nodes(parent)
        }

    def find(self, kind: type[ast.AST]) -> Iterator[ast.AST]:
        """Every node of a kind, in the order of the text."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, kind)]
        yield from sorted(found, key=self.span)

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Calls of these dotted names; of any name where none is given."""
        for node in self.find(ast.Call):
            assert isinstance(node, ast.Call)
            if not names or dotted(node.func) in names:
                yield node

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node's text begins and ends."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end_line = getattr(node, "end_lineno", 1)
        end_column = getattr(node, "end_col_offset", 0)
        return self._starts[line - 1] + column, self._starts[end_line - 1] + end_column

    def text(self, node: ast.AST) -> str:
        """A node as it is written, on one line."""
        start, end = self.span(node)
        return " ".join(self._data[start:end].decode().split())

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that a node is part of."""
        while not isinstance(node, ast.stmt):
            node = self._parents[node]
        return node

    def siblings(self, statement: ast.stmt) -> list[ast.stmt]:
        """The block that a statement is in."""
        parent = self._parents[statement]
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, [])
            if isinstance(block, list) and statement in block:
                return block
        return [statement]

    def before(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        """The statements before one in its function, the nearest first."""
        node: ast.AST = statement
        while not isinstance(node, ast.FunctionDef | ast.Module):
            if isinstance(node, ast.stmt):
                block = self.siblings(node)
                yield from reversed(block[: block.index(node)])
            node = self._parents[node]

    def defined_by(self, name: ast.Name) -> ast.expr | None:
        """The value that a name was last given before its use, where one statement says so."""
        for statement in self.before(self.statement(name)):
            if (
                isinstance(statement, ast.Assign)
                and len(statement.targets) == 1
                and isinstance(statement.targets[0], ast.Name)
                and statement.targets[0].id == name.id
            ):
                return statement.value
        return None

    # -- changes ----------------------------------------------------------------------------------
    def replace(self, node: ast.AST, text: str) -> Change:
        """The node's text becomes another."""
        return Change(*self.span(node), text)

    def drop_keyword(self, keyword: ast.keyword) -> Change:
        """A call without one of its keywords, and without the comma that belongs to it."""
        start, end = self.span(keyword)
        after = self._data[end:]
        skipped = len(after) - len(after.lstrip())
        if after.lstrip().startswith(b","):
            rest = after[skipped + 1 :]
            end += skipped + 1 + len(rest) - len(rest.lstrip())
            return Change(start, end, "")
        before = self._data[:start].rstrip()
        return Change(len(before.removesuffix(b",")), end, "")

    def drop_statement(self, statement: ast.stmt) -> Change | None:
        """The lines of a statement go away; None where its block would be empty."""
        if len(self.siblings(statement)) == 1:
            return None
        assert statement.end_lineno is not None
        return Change(self._starts[statement.lineno - 1], self._starts[statement.end_lineno], "")

    def apply(self, changes: Sequence[Change]) -> str:
        """The source with changes that don't overlap."""
        data = self._data
        for change in sorted(changes, key=lambda c: c.start, reverse=True):
            data = data[: change.start] + change.text.encode() + data[change.end :]
        return data.decode()


def dotted(node: ast.AST) -> str:
    """`nisa.activation`; empty where it is no dotted name."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            head = dotted(value)
            return f"{head}.{name}" if head else ""
        case _:
            return ""


def find_keyword(call: ast.Call, name: str) -> ast.keyword | None:
    """The keyword argument of a name."""
    return next((keyword for keyword in call.keywords if keyword.arg == name), None)
