"""Lines of kernel source, and how sizes and numbers are said in terms of the tensors at hand.

Law: a size is written as what it depends on (`x.shape[0]`) wherever the shape sets of the task
allow it, so that a kernel fits every shape of its task.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from nki_agent.builtin.graph import UnsupportedError
from nki_agent.builtin.sizes import derive_run, derive_shifted, derive_size, derived_sizes
from nki_agent.builtin.tile_steps import Number, Size

LINE_MAX = 100
_CLOSE = 1e-6


@dataclass(slots=True)
class Source:
    """Collects lines at an indentation."""

    lines: list[str] = field(default_factory=list)
    depth: int = 0

    def add(self, line: str = "") -> None:
        """One line; a call that is too long is broken after its opening bracket."""
        indent = "    " * self.depth
        found = _SUM.match(line) if len(indent) + len(line) > LINE_MAX else None
        if found and len(terms := _terms(found[2])) > 1:
            # A sum is broken before its signs, in brackets.
            with self.block(f"{found[1]}=("):
                for number, term in enumerate(terms):
                    self.add(f"+ {term}" if number else term)
            self.add(f"){found[3]}")
            return
        if len(indent) + len(line) > LINE_MAX and (found := _SLICES.match(line)):
            # Slices of a tensor, one on each line.
            with self.block(found[1]):
                for part in found[2].split(", "):
                    self.add(f"{part},")
            self.add(found[3])
            return
        if len(indent) + len(line) > LINE_MAX and (found := _PATTERN.match(line)):
            self.add("pattern=[")
            self.depth += 1
            for pair in found[1].split("], ["):
                self.add(f"[{pair}],")
            self.depth -= 1
            self.add(f"]{found[2]}")
            return
        if len(indent) + len(line) <= LINE_MAX or "(" not in line or line.startswith("#"):
            self.lines.append((indent + line).rstrip())
            return
        head, inner, tail = _split_call(line)
        self.lines.append(f"{indent}{head}")
        self.depth += 1
        whole = " ".join(inner)
        for part in [whole] if not whole.endswith(",") else _fill(inner, LINE_MAX - self.depth * 4):
            self.add(part)
        self.depth -= 1
        self.lines.append(f"{indent}{tail}")

    def note(self, text: str) -> None:
        """A comment, wrapped."""
        width = LINE_MAX - 4 * self.depth - 2
        line = ""
        for word in text.split():
            if line and len(line) + 1 + len(word) > width:
                self.lines.append("    " * self.depth + "# " + line)
                line = word
            else:
                line = f"{line} {word}".strip()
        self.lines.append("    " * self.depth + "# " + line)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """An indented block."""
        self.add(opening)
        self.depth += 1
        yield
        self.depth -= 1

    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines) + "\n"


_SUM = re.compile(r"^(\w+)=(.+ \+ .+?)(,?)$")
_SLICES = re.compile(r"^(\w+=\w+\[)([^\[\]]+, [^\[\]]+)(\],?)$")
_PATTERN = re.compile(r"^pattern=\[\[(.+)\]\](,?)$")
_CALL = re.compile(r"[\w\]]\(")


def _terms(text: str) -> list[str]:
    """The terms of a sum; what stands in brackets stays together.

    >>> _terms("(a + 1) * b + c")
    ['(a + 1) * b', 'c']
    """
    first, *rest = text.split(" + ")
    terms = [first]
    for part in rest:
        if any(terms[-1].count(a) > terms[-1].count(b) for a, b in ("()", "[]")):
            terms[-1] += f" + {part}"
        else:
            terms.append(part)
    return terms


def _split_call(line: str) -> tuple[str, list[str], str]:
    """`a = f(x, y)` as its opening, its arguments, and its closing bracket."""
    call = _CALL.search(line)
    start = 0 if line.startswith("(") else call.end() - 1 if call else line.index("(")
    depth = 0
    parts: list[str] = []
    part = ""
    for position in range(start + 1, len(line)):
        char = line[position]
        if depth == 0 and char == ")":
            parts.append(part.strip())
            # Around one expression, a comma would make a tuple of it.
            comma = "" if len(parts) == 1 and not _CALL.search(line[: start + 1]) else ","
            return line[: start + 1], [f"{p}{comma}" for p in parts if p], line[position:]
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(char, 0)
        if depth == 0 and char == ",":
            parts.append(part.strip())
            part = ""
        else:
            part += char
    raise ValueError(line)


def _fill(parts: Sequence[str], width: int) -> list[str]:
    """All arguments on one line if they fit, else one on each."""
    joined = " ".join(parts)
    return [joined.rstrip(",")] if len(joined) <= width else list(parts)


@dataclass(slots=True)
class Scope:
    """The tensors and named sizes that a stage's code can refer to."""

    shapes: Mapping[str, Sequence[Size]]
    names: dict[str, Size] = field(default_factory=dict)
    others: Mapping[str, Sequence[Size]] = field(default_factory=dict)
    """Tensors that the code does not touch, whose shapes may explain a size all the same."""
    numbers: Mapping[str, Size] = field(default_factory=dict)
    """Arguments that are sizes themselves."""
    borrowed: dict[str, None] = field(default_factory=dict)
    """Those of the tensors and numbers that it names."""

    def size(self, value: Size) -> str:
        """An expression for a size: a name, a shape, a product of shapes, or a number.

        Raises:
            UnsupportedError: the size differs between shape sets and nothing explains it.
        """
        if all(v == 1 for v in value):
            return "1"
        for name, known in self.names.items():
            if known == value:
                return name
        return self.from_shapes(value)

    def pace(self, stride: Size, count: Size, span: Size) -> str:
        """An expression for the stride of an axis; where its count is one, any stride is right.

        There it is taken for `span`, what the next axis reaches over, if that explains the others.

        Raises:
            UnsupportedError: as in `size`, at the shape sets where the axis is longer.
        """
        try:
            return self.size(stride)
        except UnsupportedError:
            live = [index for index, number in enumerate(count) if number != 1]
            if len(span) == len(stride) and _pick(span, live) == _pick(stride, live):
                return self.size(span)
            if len(live) < PLACES_MIN:
                raise
            return self._at(live).size(_pick(stride, live))

    def _at(self, live: Sequence[int]) -> Scope:
        """The same scope at some of the shape sets."""
        return Scope(
            shapes={t: [_pick(s, live) for s in shape] for t, shape in self.shapes.items()},
            names={name: _pick(size, live) for name, size in self.names.items()},
            others={t: [_pick(s, live) for s in shape] for t, shape in self.others.items()},
            numbers={name: _pick(size, live) for name, size in self.numbers.items()},
            borrowed=self.borrowed,
        )

    def from_shapes(self, value: Size, prefer: str = "", *, from_last: bool = False) -> str:
        """The expression in terms of shapes alone, those of the tensor `prefer` first.

        Where two axes are equally long, `from_last` takes the last of them.
        """
        if all(v == 1 for v in value):
            return "1"
        order = sorted(self.shapes, key=lambda name: name != prefer)
        for find in (_one_axis, _product_of_axes):
            for tensor in order:
                text = find(tensor, self.shapes[tensor], value, from_last=from_last)
                if text is not None:
                    return text
        if len(set(value)) == 1:
            return str(value[0])
        scaled = (_scaled_axis(tensor, self.shapes[tensor], value) for tensor in order)
        if (text := next(filter(None, scaled), None) or self._borrow(value)) is not None:
            return text
        return self._derive(order, value)

    def _derive(self, order: Sequence[str], value: Size) -> str:
        """An expression of several sizes, of those at hand if they do."""
        own, whole = list(self._axes(order)), list(self._all_sizes(order))
        for forms in ((_ratio_of_axes, derive_size), (_next_to_axis, derive_shifted)):
            for axes in (own, whole):
                found = (form(axes, value) for form in forms)
                if (text := next((t for t in found if t is not None), None)) is not None:
                    return self._name(text)
        if (text := derive_run(whole, list(self._runs(order)), value)) is not None:
            return self._name(text)
        if any(value) and all(v <= 0 for v in value):
            return f"-{self.size(tuple(-v for v in value))}"
        raise UnsupportedError(
            "a size",
            f"{value} at the task's sizes follows from no argument",
            hint="declare the sizes that it is made from in `SHAPES`, or use another `--model`",
        )

    def _name(self, text: str) -> str:
        """Note which arguments an expression names that the code does not have yet."""
        for name in re.findall(r"[A-Za-z_]\w*", text):
            if name in self.numbers or (name in self.others and name not in self.shapes):
                self.borrowed[name] = None
        return text

    def _borrow(self, value: Size) -> str | None:
        """A size by a number, or by an axis of another tensor, which is then passed along."""
        for name, size in self.numbers.items():
            if size == value:
                return self._name(name)
        for tensor, shape in self.others.items():
            if tensor in self.shapes:
                continue
            if (text := _one_axis(tensor, shape, value, from_last=False)) is not None:
                return self._name(text)
        return None

    def _all_sizes(self, order: Sequence[str]) -> Iterator[tuple[str, Size]]:
        """Every axis of the tensors at hand, every number, every axis of the other tensors."""
        yield from self._axes(order)
        yield from self.numbers.items()
        for tensor, shape in self.others.items():
            if tensor not in self.shapes:
                yield from ((f"{tensor}.shape[{axis}]", size) for axis, size in enumerate(shape))

    def _axes(self, order: Sequence[str]) -> Iterator[tuple[str, Size]]:
        """Every axis of the tensors as text, and its size."""
        for tensor in order:
            for axis, size in enumerate(self.shapes[tensor]):
                yield f"{tensor}.shape[{axis}]", size

    def _runs(self, order: Sequence[str]) -> Iterator[tuple[str, Size]]:
        """What neighbouring axes of a tensor reach over, those of the tensors at hand first."""
        tensors = [(t, self.shapes[t]) for t in order]
        tensors += [(t, shape) for t, shape in self.others.items() if t not in self.shapes]
        for tensor, shape in tensors:
            for axes in _products(shape):
                text = " * ".join(f"{tensor}.shape[{axis}]" for axis in axes)
                yield text, _multiply([shape[axis] for axis in axes])

    def number(self, value: Number) -> str:
        """An expression for a number; one that is made from a size says so.

        Raises:
            UnsupportedError: the number differs between shape sets and nothing explains it.
        """
        for name, size in self.names.items():
            if (made := _made_from(value, name, size)) is not None:
                return made
        if len(set(value)) == 1:
            return literal(value[0])
        if (made := self._from_shape(value)) is not None:
            return made
        order = list(self.shapes)
        axes = list(self._all_sizes(order))
        for text, size in (*derived_sizes(axes), *derived_sizes([*axes, *self._runs(order)])):
            if (made := _made_from(value, text, size)) is not None:
                return self._name(made)
        raise UnsupportedError("a number", f"{value} at the task's sizes follows from no size")

    def _from_shape(self, value: Number) -> str | None:
        """A number that is made from a size, or from the product of some sizes of one tensor."""
        for tensor, shape in self.shapes.items():
            for axis, size in enumerate(shape):
                if (made := _made_from(value, f"{tensor}.shape[{axis}]", size)) is not None:
                    return made
            for product in _products(shape):
                text = " * ".join(f"{tensor}.shape[{axis}]" for axis in product)
                size = _multiply([shape[axis] for axis in product])
                if (made := _made_from(value, f"({text})", size)) is not None:
                    return made
        return None


@dataclass(slots=True)
class PartScope(Scope):
    """The scope of a helper function: a number that follows from none of its sizes is passed in."""

    given: dict[str, Number] = field(default_factory=dict)

    def number(self, value: Number) -> str:
        """An expression for a number, or the name of the argument that brings it."""
        try:
            # Zero-argument super() loses its class in a dataclass with slots.
            return Scope.number(self, value)
        except UnsupportedError:
            for name, known in self.given.items():
                if known == value:
                    return name
            name = f"factor_{len(self.given) + 1}" if self.given else "factor"
            self.given[name] = value
            return name


def _pick(size: Size, live: Sequence[int]) -> Size:
    return tuple(size[index] for index in live)


def _one_axis(tensor: str, shape: Sequence[Size], value: Size, *, from_last: bool) -> str | None:
    axes = range(len(shape))
    for axis in reversed(axes) if from_last else axes:
        if shape[axis] == value:
            return f"{tensor}.shape[{axis}]"
    return None


def _product_of_axes(
    tensor: str, shape: Sequence[Size], value: Size, *, from_last: bool
) -> str | None:
    products = list(_products(shape))
    for product in reversed(products) if from_last else products:
        if _multiply([shape[axis] for axis in product]) == value:
            return " * ".join(f"{tensor}.shape[{axis}]" for axis in product)
    return None


def _scaled_axis(tensor: str, shape: Sequence[Size], value: Size) -> str | None:
    for axis, size in enumerate(shape):
        if factor := _whole_ratio(size, value):
            return f"{tensor}.shape[{axis}] // {factor}"
        if factor := _whole_ratio(value, size):
            return f"{tensor}.shape[{axis}] * {factor}"
    for axis, size in enumerate(shape):
        for parts in _PARTS:
            count = value[0] * parts // size[0]
            if all(n * count == v * parts for n, v in zip(size, value, strict=True)):
                return f"{tensor}.shape[{axis}] // {parts} * {count}"
    return None


PLACES_MIN = 2
"""Shape sets that an expression must hold at: at one alone, anything does."""
RATIO_MAX = 8
"""The largest number in a quotient of two sizes."""
_PARTS = (3, 4, 5, 6)
"""Parts of an axis that a size may count, as the last third of queries, keys and values."""


def _ratio_of_axes(axes: Sequence[tuple[str, Size]], value: Size) -> str | None:
    for factor in range(1, RATIO_MAX + 1):
        times = "" if factor == 1 else f"{factor} * "
        for first, large in axes:
            for second, small in axes:
                if first == second:
                    continue
                found = list(zip(large, small, value, strict=True))
                if all(b and a == factor * b * v for a, b, v in found):
                    return f"({first} // ({times}{second}))" if times else f"({first} // {second})"
                if times and all(b and factor * a == b * v for a, b, v in found):
                    return f"({times}{first} // {second})"
    return None


def _next_to_axis(axes: Sequence[tuple[str, Size]], value: Size) -> str | None:
    for text, size in axes:
        for sign, step in (("+", 1), ("-", -1)):
            if all(v == n + step for v, n in zip(value, size, strict=True)):
                return f"({text} {sign} 1)"
    return None


def _made_from(value: Number, name: str, size: Size) -> str | None:
    if any(n <= (_SMALL if len(set(value)) == 1 else 0) for n in size) or set(size) == {1}:
        return None
    if len(set(value)) > 1 and (share := _share_of(value, size)) is not None:
        return f"{literal(share)} / {name}"
    forms = {
        f"1.0 / {name}": [1 / n for n in size],
        f"1.0 / ({name} - 1)": [1 / (n - 1) if n > 1 else math.inf for n in size],
        f"{name} ** -0.5": [n**-0.5 for n in size],
        f"{name} ** 0.5": [n**0.5 for n in size],
        f"float({name})": [float(n) for n in size],
    }
    for text, numbers in forms.items():
        if all(math.isclose(a, b, rel_tol=_CLOSE) for a, b in zip(value, numbers, strict=True)):
            if text.startswith("float") and len(set(value)) == 1:
                continue
            return text
    return None


def _share_of(value: Number, size: Size) -> float | None:
    """The number of which each value is one part in `size`, if it is the same everywhere."""
    products = [v * n for v, n in zip(value, size, strict=True)]
    is_same = all(math.isclose(p, products[0], rel_tol=_CLOSE) for p in products)
    return products[0] if is_same else None


_SMALL = 16
"""Up to it a number that never changes is more likely a constant of the reference than a size."""


def _products(shape: Sequence[Size]) -> Iterator[tuple[int, ...]]:
    axes = range(len(shape))
    for first, last in combinations(range(len(shape) + 1), 2):
        if last - first > 1:
            yield tuple(axes[first:last])


def _multiply(sizes: Sequence[Size]) -> Size:
    return tuple(math.prod(values) for values in zip(*sizes, strict=True))


def _whole_ratio(large: Size, small: Size) -> int | None:
    ratios = {a // b for a, b in zip(large, small, strict=True) if b and a % b == 0}
    exact = all(b and a % b == 0 for a, b in zip(large, small, strict=True))
    return ratios.pop() if exact and len(ratios) == 1 else None


def literal(value: float) -> str:
    """The shortest text that is the same float32."""
    if math.isinf(value):
        return 'float("inf")' if value > 0 else 'float("-inf")'
    short = float(str(np.float32(value)))
    return repr(short)
