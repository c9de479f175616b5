"""Arguments whose names a printed kernel has for something else, and other names for them.

Law: arguments are handed over by position, so a kernel may call them as it likes; a name that it
gives anew in a function that takes it would hide the argument.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from nki_agent.builtin.capture import Captured
from nki_agent.builtin.graph import Graph
from nki_agent.builtin.in_place import make_name


def find_clashes(source: str, names: Collection[str]) -> dict[str, str]:
    """The arguments that are hidden somewhere in a kernel, each with a name that is free."""
    tree = ast.parse(source)
    shared = set(_shared_names(tree))
    hidden = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for name in {a.arg for a in node.args.args} & (shared | set(_given_anew(node)))
    }
    taken = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    taken |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)} | shared
    found: dict[str, str] = {}
    for name in sorted(hidden & set(names)):
        found[name] = make_name(f"{name}_in", taken)
        taken.add(found[name])
    return found


def rename(captured: Captured, names: Mapping[str, str]) -> Captured:
    """The same graphs with other names of arguments."""
    return replace(captured, graphs=tuple(_rename(graph, names) for graph in captured.graphs))


def _rename(graph: Graph, names: Mapping[str, str]) -> Graph:
    nodes = tuple(replace(n, name=names[n.name]) if n.name in names else n for n in graph.nodes)
    arguments = tuple(names.get(name, name) for name in graph.arguments)
    return replace(graph, nodes=nodes, arguments=arguments)


def _shared_names(tree: ast.Module) -> Iterator[str]:
    """What the whole file knows: modules, constants and functions."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign):
            yield from (name for target in node.targets for name in _bound_in(target))


def _given_anew(function: ast.FunctionDef) -> Iterator[str]:
    """Names that a function gives to what is not made of what they named."""
    for node in ast.walk(function):
        if isinstance(node, ast.For):
            yield from _bound_in(node.target)
        elif isinstance(node, ast.Assign):
            view = _viewed(node.value)
            yield from (n for target in node.targets for n in _bound_in(target) if n != view)


def _viewed(value: ast.expr) -> str | None:
    """The tensor of which a value is a view: `x` of `x.reshape_dim(…).permute(…)`."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        value = value.func.value
        if isinstance(value, ast.Name):
            return value.id
    return None


def _bound_in(target: ast.expr) -> set[str]:
    """The names of a target itself; those in the index of a tile are only read."""
    return {
        node.id
        for node in ast.walk(target)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
