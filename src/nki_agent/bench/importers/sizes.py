"""The sizes that stand as whole numbers in a task's text, and the text with others in their place.

Law: only the digits of sizes change, so that every other character of a foreign file stays as it
was. A size is a group of places: at first all places with one value, since files repeat a number
where two tensors must agree.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

SIZE_MIN: Final = 16
"""Sizes are not halved to below this: kernels, strides, groups and ranks are smaller."""
BATCH_MIN: Final = 2
BATCH: Final = "batch"
EQUALS: Final = " = "
"""Between the labels of a size and its value in the suite, in the size's name."""
PART: Final = "/"
"""Between the name of a size and the label of one of its places."""
INPUT_FUNCTIONS: Final = frozenset({"get_inputs", "get_init_inputs", "inputs"})
VALUE_MAX: Final = 2**40


class Template(Protocol):
    """A task's text in which sizes can be chosen."""

    def sizes(self) -> Mapping[str, int]:
        """The sizes as the suite has them."""

    def split(self, name: str) -> Mapping[str, int]:
        """The parts of a size that can differ; nothing where it has one."""

    def render(self, sizes: Mapping[str, int]) -> str:
        """The text with these sizes; parts win over their whole."""


def halve(name: str, value: int) -> int | None:
    """The next smaller value of a size, rounded up; None where it is small enough."""
    labels = name.partition(EQUALS)[0].lower().split(", ")
    least = BATCH_MIN if all(BATCH in label for label in labels) else SIZE_MIN
    smaller = (value + 1) // 2
    return smaller if least <= smaller < value else None


@dataclass(frozen=True, slots=True)
class Place:
    """A whole number in the text: where it stands in bytes, and what it sizes."""

    start: int
    end: int
    value: int
    label: str


@dataclass(frozen=True, slots=True)
class LiteralTemplate:
    """A Python text and the places of its sizes."""

    source: str
    places: tuple[Place, ...]
    _groups: dict[str, tuple[Place, ...]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Group the places by value."""
        by_value: dict[int, list[Place]] = {}
        for place in self.places:
            by_value.setdefault(place.value, []).append(place)
        for places in by_value.values():
            self._groups[_name_group(places)] = tuple(places)

    def sizes(self) -> dict[str, int]:
        """One for each value."""
        return {name: places[0].value for name, places in self._groups.items()}

    def split(self, name: str) -> dict[str, int]:
        """The labels of a group, where it has several."""
        labels = dict.fromkeys(place.label for place in self._groups.get(name, ()))
        value = self.sizes()[name] if name in self._groups else 0
        return {f"{name}{PART}{label}": value for label in labels} if len(labels) > 1 else {}

    def render(self, sizes: Mapping[str, int]) -> str:
        """Put the sizes in, from the end of the text to its start."""
        data = self.source.encode()
        wanted = [
            (place, sizes.get(f"{name}{PART}{place.label}", sizes.get(name, place.value)))
            for name, places in self._groups.items()
            for place in places
        ]
        for place, value in sorted(wanted, key=lambda item: item[0].start, reverse=True):
            if value != place.value:
                data = data[: place.start] + str(value).encode() + data[place.end :]
        return data.decode()


def _name_group(places: list[Place]) -> str:
    """`batch_size, dim`; the value keeps groups of the same labels apart."""
    labels = ", ".join(dict.fromkeys(place.label for place in places))
    return f"{labels}{EQUALS}{places[0].value}"


def read_template(source: str, *, everywhere: bool = False) -> LiteralTemplate:
    """Find the sizes of a Python text.

    They stand in assignments of the module and in the functions that give inputs; with
    `everywhere` also in classes and other functions.

    Raises:
        SyntaxError: it is not Python.
    """
    tree = ast.parse(source)
    offsets = _line_offsets(source)
    places = [
        Place(
            start=offsets[node.lineno - 1] + node.col_offset,
            end=offsets[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0),
            value=value,
            label=label,
        )
        for node, value, label in _find(tree, everywhere=everywhere)
        if halve(label, value) is not None and value <= VALUE_MAX
    ]
    return LiteralTemplate(source, tuple(places))


def _line_offsets(source: str) -> list[int]:
    """Byte offset of each line, as `ast` counts lines."""
    offsets, total = [], 0
    for line in source.encode().split(b"\n"):
        offsets.append(total)
        total += len(line) + 1
    return offsets


def _find(tree: ast.Module, *, everywhere: bool) -> Iterator[tuple[ast.expr, int, str]]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[target], value=value):
                yield from _assigned(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield from _assigned(target, value)
            case ast.Assign(targets=[*targets], value=value):
                names = " and ".join(ast.unparse(target) for target in targets)
                yield from _numbers(value, names)
            case ast.FunctionDef(name=name) if name in INPUT_FUNCTIONS:
                yield from _numbers(node, name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) if everywhere:
                yield from _numbers(node, name)


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, int, str]]:
    """`a, b = 1, 2` names each number by its own target."""
    names, parts = [target], [value]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        names, parts = target.elts, value.elts
    if len(names) != len(parts):
        names, parts = [target], [value]
    for name, part in zip(names, parts, strict=True):
        yield from _numbers(part, ast.unparse(name))


def _numbers(node: ast.AST, label: str) -> Iterator[tuple[ast.expr, int, str]]:
    """Each whole number by itself: the 512 of `512 * 7 * 7` is the 512 elsewhere."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield node, node.value, label
    for child in ast.iter_child_nodes(node):
        yield from _numbers(child, label)
