"""A computation as nodes that read one another's elements, in a normal form.

Law: what only moves or only widens values is no node where its reader can read through it; sums,
products and maxima of several are one node; a number is a node of its own, and numbers that are
added or multiplied are one. So the same mathematics, written in another way, is the same nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from nki_agent.base.errors import NkiAgentError
from nki_agent.corpus.strides import (
    Nest,
    Reading,
    align,
    compose,
    flat,
    is_whole,
    merge_together,
)

MOVE = "move"
ADD, MUL, MAX, MIN = "add", "mul", "max", "min"
SUM = "sum"
COMMUTATIVE = frozenset({ADD, MUL, MAX, MIN, "and", "or", "xor", "eq", "ne"})
_CHAINS = frozenset({ADD, MUL, MAX, MIN, "and", "or"})
_NEUTRAL = {ADD: 0.0, MUL: 1.0}
_INVERSE = frozenset({"recip", "not"})
"""Twice is never."""


class GraphError(NkiAgentError):
    """A reference that cannot be followed without data; the message says why."""


@dataclass(frozen=True, slots=True)
class Edge:
    """What a node reads of another: loops in groups, whose meaning the reader's operation says."""

    source: int
    groups: tuple[Nest, ...]
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """One operation; its result is a flat array."""

    op: str
    edges: tuple[Edge, ...]
    num_elems: int
    dtype: str = ""
    value: float | None = None
    """Of a number."""


Operand = tuple[int, Reading]
"""A node, and how it is read along the axes of the operation."""


@dataclass(slots=True)
class Nodes:
    """The nodes so far; the same one is made once."""

    nodes: list[Node] = field(default_factory=list)
    _known: dict[Node, int] = field(default_factory=dict)

    def add(self, node: Node) -> int:
        """The place of a node, new or known."""
        place = self._known.get(node)
        if place is None:
            place = self._known[node] = len(self.nodes)
            self.nodes.append(node)
        return place

    def add_leaf(self, op: str, num_elems: int, dtype: str) -> int:
        """Something that is given; each is itself."""
        self.nodes.append(Node(op, (), num_elems, dtype))
        return len(self.nodes) - 1

    def add_number(self, value: float) -> int:
        """A number, however many elements are filled with it."""
        return self.add(Node("number", (), 1, value=float(value)))

    def read_through(self, operand: Operand) -> Operand:
        """Read what is moved from where it came from, as far as that can be said."""
        place, reading = operand
        while True:
            node = self.nodes[place]
            if node.value is not None:
                axes = tuple(tuple((size, 0) for size, _ in axis) for axis in reading.axes)
                return place, Reading(axes)
            found = _compose(node.edges[0], reading) if node.op == MOVE else None
            if found is None:
                return place, reading
            place, reading = node.edges[0].source, found

    def pointwise(self, op: str, operands: Sequence[Operand], *, dtype: str = "") -> int:
        """Each element of a result from one of each operand; the axes are those of the result."""
        through = [self.read_through(operand) for operand in operands]
        if op in _CHAINS:
            through = [part for operand in through for part in self._unfold(op, operand)]
        found = _align_axes([reading for _, reading in through])
        if found is None:
            through = list(operands)
            found = _align_axes([reading for _, reading in through])
        if found is None:
            raise ValueError("operands of one operation have different elements")
        sizes, strides = found
        offsets = [reading.offset for _, reading in through]
        order = _order_loops(sizes, strides) if op != MOVE else tuple(range(len(sizes)))
        edges = tuple(
            Edge(place, (tuple((sizes[i], steps[i]) for i in order),), offset)
            for (place, _), steps, offset in zip(through, strides, offsets, strict=True)
        )
        kept = math.prod(sizes[i] for i in order)
        made = self._simplify(op, _merge_edges(edges), num_elems=kept, dtype=dtype)
        if order == tuple(range(len(sizes))):
            return made
        return self._move(_put_back(made, sizes, order), math.prod(sizes), dtype)

    def _unfold(self, op: str, operand: Operand) -> list[Operand]:
        """A sum among the terms of a sum is its terms."""
        place, reading = operand
        node = self.nodes[place]
        if node.op != op:
            return [operand]
        parts = [(edge.source, _compose(edge, reading)) for edge in node.edges]
        known = [self.read_through((source, part)) for source, part in parts if part is not None]
        return known if len(known) == len(parts) else [operand]

    def _simplify(self, op: str, edges: tuple[Edge, ...], *, num_elems: int, dtype: str) -> int:
        numbers = [self.nodes[edge.source].value for edge in edges]
        if len(edges) > 1 and op in _NEUTRAL:
            edges = self._fold_numbers(op, edges)
        elif op in {MOVE, "recip", "sqrt"} and len(numbers) == 1 and numbers[0] is not None:
            return self.add_number(_apply(op, numbers[0]))
        if op in _CHAINS and len(edges) == 1:
            op = MOVE
        if op == MOVE:
            return self._move(edges[0], num_elems, dtype)
        if op in _INVERSE and self.nodes[edges[0].source].op == op:
            inner = self.nodes[edges[0].source]
            through = _compose(inner.edges[0], Reading(edges[0].groups, edges[0].offset))
            if through is not None:
                edge = Edge(inner.edges[0].source, through.axes, through.offset)
                return self._move(edge, num_elems, dtype)
        return self.add(Node(op, edges, num_elems, dtype))

    def _move(self, edge: Edge, num_elems: int, dtype: str) -> int:
        source = self.nodes[edge.source]
        if source.value is not None:
            return edge.source
        if num_elems == source.num_elems and is_whole(
            Reading(edge.groups, edge.offset), source.num_elems
        ):
            return edge.source
        return self.add(Node(MOVE, (edge,), num_elems, dtype))

    def _fold_numbers(self, op: str, edges: tuple[Edge, ...]) -> tuple[Edge, ...]:
        values = [(edge, self.nodes[edge.source].value) for edge in edges]
        numbers = [value for _, value in values if value is not None]
        others = tuple(edge for edge, value in values if value is None)
        if not numbers:
            return edges
        total = math.fsum(numbers) if op == ADD else math.prod(numbers)
        if others and total == _NEUTRAL[op]:
            return others
        sizes = edges[0].groups[0]
        number = Edge(self.add_number(total), (tuple((size, 0) for size, _ in sizes),))
        if not others:
            return (number,)
        return (*others, number)

    def reduce(self, op: str, operand: Operand, *, axes: Sequence[int], dtype: str = "") -> int:
        """One element of the axes that stay from all of those that are given."""
        operand, factor = self._take_factor(operand) if op == SUM else (operand, 1.0)
        place, reading = self.read_through(operand)
        kept = [loop for i, axis in enumerate(reading.axes) if i not in axes for loop in axis]
        gone = [loop for i, axis in enumerate(reading.axes) if i in axes for loop in axis]
        # All orders give the same.
        gone.sort(key=lambda loop: -loop[1])
        groups = tuple(_merge_alone(loops) for loops in (kept, gone))
        num_elems = math.prod(size for size, _ in kept)
        if not gone:
            return self._move(Edge(place, groups[:1], reading.offset), num_elems, dtype)
        edge = Edge(place, groups, reading.offset)
        return self._scale(self.add(Node(op, (edge,), num_elems, dtype)), factor)

    def contract(self, left: Operand, right: Operand, *, dtype: str = "") -> int:
        """Products [batch, m, k] by [batch, k, n]."""
        (left, by), (right, also_by) = self._take_factor(left), self._take_factor(right)
        found = self._contract(self.read_through(left), self.read_through(right), dtype)
        if found is None:
            found = self._contract(left, right, dtype)
        if found is None:
            raise ValueError("operands of a product have different elements")
        return self._scale(found, by * also_by)

    def _take_factor(self, operand: Operand) -> tuple[Operand, float]:
        """A sum of products by one number is that number's product with the sum."""
        place, reading = self.read_through(operand)
        node = self.nodes[place]
        number = self.nodes[node.edges[-1].source].value if node.op == MUL else None
        if number is None:
            return operand, 1.0
        edges = node.edges[:-1]
        if len(edges) > 1:
            bare = self.add(Node(MUL, edges, node.num_elems, node.dtype))
        else:
            bare = self._move(edges[0], node.num_elems, node.dtype)
        return (bare, reading), number

    def _scale(self, place: int, factor: float) -> int:
        if factor == 1:
            return place
        node = self.nodes[place]
        operands = [
            (place, whole(node.num_elems)),
            (self.add_number(factor), whole(node.num_elems)),
        ]
        return self.pointwise(MUL, operands, dtype=node.dtype)

    def _contract(self, left: Operand, right: Operand, dtype: str) -> int | None:
        (batch_l, m, k_l), (batch_r, k_r, n) = left[1].axes, right[1].axes
        batch, depth = align([batch_l, batch_r]), align([k_l, k_r])
        if batch is None or depth is None:
            return None
        sizes, (lefts, rights) = batch
        # One matrix for the whole batch: its rows are more rows of one product.
        if not any(rights):
            m = (*zip(sizes, lefts, strict=True), *m)
            sizes, lefts, rights = (), (), ()
        groups = [
            (sizes, lefts, rights),
            ([s for s, _ in m], [t for _, t in m], [0] * len(m)),
            ([s for s, _ in n], [0] * len(n), [t for _, t in n]),
            (depth[0], *depth[1]),
        ]
        merged = [merge_together(size, [a, b]) for size, a, b in groups]
        num_elems = math.prod(size for group in merged[:3] for size in group[0])
        edges = tuple(
            Edge(
                place,
                tuple(tuple(zip(size, steps[i], strict=True)) for size, steps in merged),
                reading.offset,
            )
            for i, (place, reading) in enumerate((left, right))
        )
        return self.add(Node("contract", edges, num_elems, dtype))

    def write(self, old: int, value: Operand, region: Reading, *, dtype: str = "") -> int:
        """An array of which a region is written over; the loops of both are the region's."""
        place, reading = value
        found = _align_axes([reading, region])
        if found is None:
            raise ValueError("what is written has other elements than the place for it")
        sizes, (steps, places) = found
        num_elems = self.nodes[old].num_elems
        edges = (
            Edge(old, (flat(num_elems),)),
            Edge(place, (tuple(zip(sizes, steps, strict=True)),), reading.offset),
            Edge(old, (tuple(zip(sizes, places, strict=True)),), region.offset),
        )
        return self.add(Node("write", edges, num_elems, dtype))

    def opaque(
        self, op: str, operands: Sequence[tuple[int, Reading]], *, num_elems: int, dtype: str = ""
    ) -> int:
        """An operation of its own kind; the groups are the axes that are given."""
        edges = []
        for operand in operands:
            place, reading = self.read_through(operand)
            groups = tuple(_merge_alone(axis) for axis in reading.axes)
            edges.append(Edge(place, groups, reading.offset))
        return self.add(Node(op, tuple(edges), num_elems, dtype))


def _compose(edge: Edge, reading: Reading) -> Reading | None:
    """Read what an edge leads to through the node that has the edge."""
    loops = [loop for group in edge.groups for loop in group]
    return compose(reading, [size for size, _ in loops], [step for _, step in loops], edge.offset)


def _apply(op: str, value: float) -> float:
    if op == "recip":
        return 1 / value if value else math.inf
    if op == "sqrt":
        return math.sqrt(value) if value >= 0 else math.nan
    return value


def _merge_alone(loops: Sequence[tuple[int, int]]) -> Nest:
    sizes, (strides,) = merge_together([s for s, _ in loops], [[t for _, t in loops]])
    return tuple(zip(sizes, strides, strict=True))


def _align_axes(
    readings: Sequence[Reading],
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]] | None:
    """The loops of all axes, the same for each reading, merged where all of them can be."""
    sizes: list[int] = []
    strides: list[list[int]] = [[] for _ in readings]
    for axis in zip(*(reading.axes for reading in readings), strict=True):
        found = align(axis)
        if found is None:
            return None
        sizes += found[0]
        for known, steps in zip(strides, found[1], strict=True):
            known.extend(steps)
    return merge_together(sizes, strides)


def _order_loops(sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The loops that a step needs, in the order in which what it reads is stored.

    A loop along which nothing changes is left to who reads the result; where all whole operands
    are stored in another order, so is the result.
    """
    needed = tuple(i for i in range(len(sizes)) if any(steps[i] for steps in strides))
    orders = {
        tuple(sorted(needed, key=lambda i: -steps[i]))
        for steps in strides
        if needed and all(steps[i] > 0 for i in needed)
    }
    return orders.pop() if len(orders) == 1 else needed


def _put_back(place: int, sizes: Sequence[int], order: Sequence[int]) -> Edge:
    """Read a result, stored in an order of its own, along all loops."""
    steps = dict.fromkeys(range(len(sizes)), 0)
    stride = 1
    for i in reversed(order):
        steps[i] = stride
        stride *= sizes[i]
    sizes, (strides,) = merge_together(sizes, [[steps[i] for i in range(len(sizes))]])
    return Edge(place, (tuple(zip(sizes, strides, strict=True)),))


def _merge_edges(edges: tuple[Edge, ...]) -> tuple[Edge, ...]:
    sizes = [size for size, _ in edges[0].groups[0]]
    merged, strides = merge_together(sizes, [[step for _, step in e.groups[0]] for e in edges])
    return tuple(
        Edge(edge.source, (tuple(zip(merged, steps, strict=True)),), edge.offset)
        for edge, steps in zip(edges, strides, strict=True)
    )


def whole(num_elems: int) -> Reading:
    """All of a flat array, in order."""
    return Reading((flat(num_elems),))
