"""What a task computes, as a hash that is the same however it is written.

Law: no size, no name, no dtype and no order of independent statements is part of `hash`; a cast
between real formats is nothing, a number counts by its kind alone. Equal hashes mean the same
computation; unequal ones may still be the same mathematics, where it takes algebra to see that.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import msgspec

from nki_agent.corpus.nodes import COMMUTATIVE, MOVE, MUL, Edge, Node
from nki_agent.corpus.opaque import kind_of_number
from nki_agent.corpus.strides import Loop, Reading, is_whole

DIGITS = 16
DEPTH = 3
"""Operations that are looked at below another for a feature."""
ROUNDS = 2
"""Times that a node's readers colour it, to tell apart inputs that are read alike at first."""
LEAVES = frozenset({"input", "data"})


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """A computation in its canonical form."""

    hash: str
    """Without sizes and dtypes."""
    typed: str
    """With dtypes, and with the regime of the sizes."""
    bare: str
    """`hash` without products by a number at inputs and outputs: what is left of a thin wrapper."""
    features: tuple[str, ...]
    """Hashes of its parts up to `DEPTH` operations, for distances."""
    lines: tuple[str, ...]
    """The computation as text: a line for each node."""

    @property
    def text(self) -> str:
        """For messages."""
        return "\n".join(self.lines)


def canonical_graph(source: str | Path) -> Graph:
    """The graph of a task file, given as its text or its path.

    Raises:
        TaskError: the file cannot be used.
        GraphError: it cannot be followed without data.
    """
    from nki_agent.corpus.trace import trace_task  # noqa: PLC0415 - PyTorch is optional

    found = trace_task(source)
    return make_graph(found.nodes, found.outputs, regime=found.regime)


def distance(graph: Graph, graphs: Iterable[Graph]) -> float:
    """How far a graph is from the nearest of others: 0 the same parts, 1 not one in common."""
    own = frozenset(graph.features)
    return min((1 - _overlap(own, frozenset(g.features)) for g in graphs), default=1.0)


def _overlap(left: frozenset[str], right: frozenset[str]) -> float:
    union = len(left | right)
    return len(left & right) / union if union else 1.0


def make_graph(nodes: Sequence[Node], outputs: Sequence[int], *, regime: str) -> Graph:
    """The canonical form of nodes that have been followed."""
    whole = _Canonical(nodes, outputs)
    stripped = _strip(nodes, outputs)
    bare = _Canonical(*stripped) if stripped is not None else whole
    lines = whole.lines()
    dtypes = whole.dtypes()
    return Graph(
        hash=_digest(lines),
        typed=_digest([*lines, *dtypes, regime]),
        bare=_digest(bare.lines()),
        features=whole.features(),
        lines=tuple(lines),
    )


def _strip(
    nodes: Sequence[Node], outputs: Sequence[int]
) -> tuple[Sequence[Node], Sequence[int]] | None:
    """The same without products by a number that the outputs are or the inputs go into."""
    changed = list(nodes)
    for place, node in enumerate(nodes):
        factors = _factors(node, nodes)
        if place not in outputs:
            is_first = len(factors) == 1 and nodes[factors[0].source].op in LEAVES
            factors = factors if is_first else ()
        if factors:
            op = MOVE if len(factors) == 1 else MUL
            changed[place] = Node(op, factors, node.num_elems, node.dtype)
    if changed == list(nodes):
        return None
    ends = [_skip_moves(changed, place) for place in outputs]
    rewired = [
        node
        if not node.edges
        else Node(
            node.op,
            tuple(_rewire(changed, edge) for edge in node.edges),
            node.num_elems,
            node.dtype,
            node.value,
        )
        for node in changed
    ]
    return rewired, ends


def _factors(node: Node, nodes: Sequence[Node]) -> tuple[Edge, ...]:
    """What a product by a number multiplies besides; nothing for other nodes."""
    if node.op != MUL:
        return ()
    others = tuple(edge for edge in node.edges if nodes[edge.source].value is None)
    return others if len(others) < len(node.edges) else ()


def _skip_moves(nodes: Sequence[Node], place: int) -> int:
    while nodes[place].op == MOVE and _is_plain_move(nodes[place], nodes):
        place = nodes[place].edges[0].source
    return place


def _is_plain_move(node: Node, nodes: Sequence[Node]) -> bool:
    edge = node.edges[0]
    source = nodes[edge.source]
    return source.num_elems == node.num_elems and is_whole(
        Reading(edge.groups, edge.offset), source.num_elems
    )


def _rewire(nodes: Sequence[Node], edge: Edge) -> Edge:
    return Edge(_skip_moves(nodes, edge.source), edge.groups, edge.offset)


def _digest(parts: Iterable[str]) -> str:
    joined = "\n".join(parts).encode()
    return hashlib.blake2b(joined, digest_size=DIGITS // 2).hexdigest()


@dataclass(slots=True)
class _Canonical:
    """Names the nodes that outputs need, by what they are and by who reads them."""

    nodes: Sequence[Node]
    outputs: Sequence[int]
    order: list[int] = field(init=False)
    """Sources before their readers."""
    edges: dict[int, list[tuple[int, str]]] = field(init=False)
    """For each node what it reads and how, as text."""
    colours: dict[int, str] = field(init=False)

    def __post_init__(self) -> None:
        self.order = self._list_needed()
        pieces = self._find_pieces()
        self.edges = {
            place: [
                (edge.source, _describe_edge(edge, pieces[edge.source]))
                for edge in self.nodes[place].edges
            ]
            for place in self.order
        }
        self.colours = self._colour()

    def _list_needed(self) -> list[int]:
        needed: set[int] = set()
        left = list(self.outputs)
        while left:
            place = left.pop()
            if place not in needed:
                needed.add(place)
                left += [edge.source for edge in self.nodes[place].edges]
        # Nodes are made after what they read.
        return sorted(needed)

    def _find_pieces(self) -> dict[int, tuple[int, ...]]:
        """For each node the strides at which its readers cut it, and its size."""
        steps: dict[int, set[int]] = defaultdict(set)
        for place in self.order:
            for edge in self.nodes[place].edges:
                steps[edge.source] |= {s for group in edge.groups for _, s in group if s}
        found = {}
        for place in self.order:
            total = self.nodes[place].num_elems
            cuts = [1]
            for step in sorted(steps[place]):
                if step > cuts[-1] and step % cuts[-1] == 0 and total % step == 0 and step < total:
                    cuts.append(step)
            found[place] = (*cuts, total)
        return found

    def _colour(self) -> dict[int, str]:
        colours = dict.fromkeys(self.order, "")
        for round_number in range(ROUNDS + 1):
            colours = self._colour_up(colours)
            if round_number < ROUNDS:
                colours = self._colour_down(colours)
        return colours

    def _colour_up(self, seeds: dict[int, str]) -> dict[int, str]:
        """By operation and what it reads."""
        colours: dict[int, str] = {}
        for place in self.order:
            parts = self._parts(place, colours)
            colours[place] = _digest([seeds[place], self._op(place), *parts])
        return colours

    def _colour_down(self, colours: dict[int, str]) -> dict[int, str]:
        """By who reads it, and as which operand."""
        readers: dict[int, list[str]] = defaultdict(list)
        for place in self.outputs:
            readers[place].append("output")
        found: dict[int, str] = {}
        for place in reversed(self.order):
            found[place] = _digest([colours[place], *sorted(readers[place])])
            is_free = self.nodes[place].op in COMMUTATIVE
            for index, (source, text) in enumerate(self.edges[place]):
                at = "" if is_free else str(index)
                readers[source].append(f"{found[place]} {at} {text}")
        return found

    def _parts(self, place: int, colours: dict[int, str]) -> list[str]:
        parts = [f"{text} {colours[source]}" for source, text in self.edges[place]]
        return sorted(parts) if self.nodes[place].op in COMMUTATIVE else parts

    def _op(self, place: int) -> str:
        node = self.nodes[place]
        return node.op if node.value is None else f"number {kind_of_number(node.value)}"

    def _ordered(self, place: int) -> list[tuple[int, str]]:
        edges = self.edges[place]
        if self.nodes[place].op not in COMMUTATIVE:
            return edges
        return sorted(edges, key=lambda edge: (edge[1], self.colours[edge[0]]))

    def _number(self) -> dict[int, int]:
        """Each node's number, in the order in which the outputs reach it."""
        numbers: dict[int, int] = {}
        ends = sorted(self.outputs, key=lambda place: self.colours[place])
        for end in ends:
            stack: list[tuple[int, int]] = [(end, 0)]
            while stack:
                place, index = stack.pop()
                ordered = self._ordered(place)
                if index < len(ordered):
                    stack.append((place, index + 1))
                    if ordered[index][0] not in numbers:
                        stack.append((ordered[index][0], 0))
                elif place not in numbers:
                    numbers[place] = len(numbers)
        return numbers

    def lines(self) -> list[str]:
        """A line for each node, sources first, then the outputs."""
        numbers = self._number()
        lines = []
        for place in sorted(numbers, key=numbers.__getitem__):
            reads = [
                f"{numbers[source]}{f' {text}' if text else ''}"
                for source, text in self._ordered(place)
            ]
            lines.append(f"{numbers[place]} = {self._op(place)}({', '.join(reads)})")
        ends = sorted(self.outputs, key=lambda place: self.colours[place])
        lines.append(f"return {', '.join(str(numbers[place]) for place in ends)}")
        return lines

    def dtypes(self) -> list[str]:
        """The dtypes of inputs and outputs, in canonical order."""
        numbers = self._number()
        inputs = [p for p in sorted(numbers, key=numbers.__getitem__) if not self.nodes[p].edges]
        return [
            *(self.nodes[place].dtype for place in inputs),
            *(self.nodes[p].dtype for p in sorted(self.outputs, key=lambda p: self.colours[p])),
        ]

    def features(self) -> tuple[str, ...]:
        """Hashes of each node with what lies up to `DEPTH` operations below it."""
        found: set[str] = set()
        colours = {place: self._op(place) for place in self.order}
        for _ in range(DEPTH):
            colours = {
                place: _digest([self._op(place), *self._parts(place, colours)])
                for place in self.order
            }
            found |= {colours[place] for place in self.order if self.nodes[place].edges}
        return tuple(sorted(found))


def _describe_edge(edge: Edge, cuts: tuple[int, ...]) -> str:
    """How an array is read, in pieces between its cuts, counted from the innermost."""
    groups = [" ".join(_describe_loop(loop, cuts) for loop in group) for group in edge.groups]
    text = "|".join(groups)
    if edge.offset:
        text += f"@{_describe_offset(edge, cuts)}"
    return "" if text == "*" else f"[{text}]"


def _describe_loop(loop: Loop, cuts: tuple[int, ...]) -> str:
    size, step = loop
    if step == 0:
        return "-"
    if step not in cuts:
        return "skew"
    first = cuts.index(step)
    end = step * size
    last = next((i for i, cut in enumerate(cuts) if cut >= end), len(cuts) - 1)
    if first == 0 and end == cuts[-1]:
        return "*"
    name = str(first) if last - first <= 1 else f"{first}-{last - 1}"
    return name if end in cuts else f"{name}~"


def _describe_offset(edge: Edge, cuts: tuple[int, ...]) -> str:
    """Where reading starts in each piece: at 0, so that it ends at the end, or between."""
    turns = {step: size for group in edge.groups for size, step in group if step}
    words = []
    for low, high in pairwise(cuts):
        place = edge.offset % high // low
        end = place + turns.get(low, 1)
        words.append("0" if place == 0 else "end" if end >= high // low else "mid")
    return ",".join(words)
