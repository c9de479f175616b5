"""Loops over time that correct a matrix state by the delta rule, many steps at once.

Law: each step makes the state decay, S = a * S, and replaces a share b of what it answers to a key
by a value, S += b * (v - S k) k^T, before a query reads it. Within a run of steps the errors
e = v - S k solve a triangular system that knows nothing of the state but what it answers at the
run's start: so the state moves once a run, and all else is products. Decays are multiplied and
never divided by, so no size of theirs is too small. Any other loop is refused here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nki_agent.builtin.capture import Captured
from nki_agent.builtin.graph import SOURCES, Graph, Node, Op
from nki_agent.builtin.plan import Stored
from nki_agent.builtin.resident_plan import DeltaRulePlan
from nki_agent.builtin.tile_steps import Access, Size
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType

LOOPS_MAX = 3
"""Axes of the batch beside the heads of a tile."""
COLS, ROWS = -1, -2


@dataclass(slots=True)
class DeltaRule:
    """Which node is what; a decay or a share may be missing."""

    history: Node
    out: int
    key: int
    query: int
    value: int
    decay: int | None
    share: int | None


def find_delta_rule(captured: Captured, nodes: Sequence[int], chip: ChipSpec) -> DeltaRule | None:
    """The loop of these nodes as a delta rule whose sizes a tile holds; None if it is not."""
    found = _Reader(captured.graphs, nodes).read()
    if found is None or not all(_fits(graph, found, chip) for graph in captured.graphs):
        return None
    return found


def _fits(graph: Graph, rule: DeltaRule, chip: ChipSpec) -> bool:
    """Whether operands vary along their own axes alone, at the sizes of one shape set."""
    steps, *batch, rows, cols = graph[rule.history.inputs[1]].shape
    bank = chip.psum_bank_bytes // DType.FLOAT32.itemsize
    if not batch or len(batch) > 1 + LOOPS_MAX or cols > chip.partitions or rows > bank:
        return False
    wanted = {rule.key: (1, cols), rule.query: (1, cols), rule.value: (rows, 1)}
    wanted |= {side: (1, 1) for side in (rule.decay, rule.share) if side is not None}
    wanted[rule.out] = (rows, 1)
    return all(
        graph[source].dtype is DType.FLOAT32
        and graph[source].shape == (steps, *batch, *sizes)
        and graph.base(source).op not in SOURCES - {Op.INPUT}
        for source, sizes in wanted.items()
    )


@dataclass(slots=True)
class _Reader:
    """Follows what is made of the state."""

    graphs: Sequence[Graph]
    nodes: Sequence[int]
    users: dict[int, list[int]] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    @property
    def graph(self) -> Graph:
        """The graph at the first shape set; all have the same nodes."""
        return self.graphs[0]

    def read(self) -> DeltaRule | None:
        """All nodes of the loop as a delta rule."""
        graph = self.graph
        self.users = graph.users()
        written = [n for n in graph.nodes if n.op is Op.PARTS and n.name]
        histories = [n for n in written if n.inputs[1] in self.nodes]
        if len(histories) != 1 or not self._is_only_carried(histories[0]):
            return None
        before = self._before(histories[0])
        if not before:
            return None
        faded, decay = before, None
        if len(before) == 1 and (made := self._only(before[0], "multiply")) is not None:
            faded, decay = [made], self._other(made, before)
        rule = self._correction(histories[0], faded, decay)
        return rule if rule is not None and self.seen == set(self.nodes) else None

    def _is_only_carried(self, history: Node) -> bool:
        """Whether a state starts from zero, and nothing behind the loop reads it."""
        graph = self.graph
        initial = graph.base(graph[history.inputs[0]].inputs[0])
        is_zero = initial.op is Op.CONST and initial.value == 0.0
        return is_zero and not self.users[history.id]

    def _before(self, history: Node) -> list[int]:
        """The state as each step finds it, by one or more equal views."""
        graph = self.graph
        state = next(n for n in graph.nodes if n.op is Op.STATE and n.name == history.name)
        views = [view for view in self.users[state.id] if self.users[view]]
        is_own = all(not graph[view].offset for view in views)
        return views if is_own and all(self._is_same(view, views[0]) for view in views) else []

    def _correction(
        self, history: Node, faded: Sequence[int], decay: int | None
    ) -> DeltaRule | None:
        """What follows from the state that has decayed."""
        graph = self.graph
        readers = [r for state in faded for r in self.users[state] if r in self.nodes]
        sums = [r for r in readers if graph[r].function == "add"]
        known = self._answer([r for r in readers if r not in sums])
        if len(readers) != len(sums) + 1 or len(sums) != 1 or known is None:
            return None
        answer, key = known
        error = self._only(answer, "subtract")
        if error is None or graph[error].inputs[1] != answer:
            return None
        value, share = graph[error].inputs[0], None
        outer = self._only(error, "multiply")
        if outer is not None and self._only(outer, "multiply") is not None:
            share = self._other(outer, [error])
            error, outer = outer, self._only(outer, "multiply")
        if outer is None or not self._is_same(self._other(outer, [error]), key):
            return None
        (after,) = sums
        if self._other(after, faded) != outer:
            return None
        return self._reading(history, after, (key, value, decay, share))

    def _reading(
        self, history: Node, after: int, given: tuple[int, int, int | None, int | None]
    ) -> DeltaRule | None:
        """The query's answer, and what the next step finds."""
        copied = history.inputs[1]
        if self.graph[copied].function != "copy" or self.graph[copied].inputs != (after,):
            return None
        read = self._answer([r for r in self.users[after] if r != copied])
        if read is None:
            return None
        self.seen |= {after, copied}
        key, value, decay, share = given
        return DeltaRule(history, read[0], key, read[1], value, decay, share)

    def _answer(self, products: Sequence[int]) -> tuple[int, int] | None:
        """The sum along rows of the one product with a state, and the other factor."""
        graph = self.graph
        if len(products) != 1 or graph[products[0]].function != "multiply":
            return None
        (total,) = [*self.users[products[0]], None][:1]
        if total is None or len(self.users[products[0]]) != 1 or total not in self.nodes:
            return None
        node = graph[total]
        last = len(graph[products[0]].shape) - 1
        if node.op is not Op.REDUCE or node.function != "add" or tuple(node.axes) != (last,):
            return None
        self.seen |= {products[0], total}
        factors = [i for i in graph[products[0]].inputs if graph.base(i).id not in self._states]
        return (total, factors[0]) if len(factors) == 1 else None

    @property
    def _states(self) -> set[int]:
        """What is a state of the loop, or is made in it."""
        found = {n.id for n in self.graph.nodes if n.op is Op.STATE}
        return found | set(self.nodes)

    def _only(self, source: int, function: str) -> int | None:
        """The one reader of a value, if it is such a binary node of the loop."""
        readers = self.users[source]
        if len(readers) != 1 or readers[0] not in self.nodes:
            return None
        node = self.graph[readers[0]]
        if node.op is not Op.BINARY or node.function != function:
            return None
        self.seen.add(node.id)
        return node.id

    def _other(self, node: int, sources: Sequence[int]) -> int:
        """The operand that is none of these."""
        first, second = self.graph[node].inputs
        return second if first in sources else first

    def _is_same(self, first: int, second: int) -> bool:
        """Whether two operands are one view of one value, at all shape sets."""
        is_one = self.graph.base(first).id == self.graph.base(second).id
        return is_one and all(_layout(g[first]) == _layout(g[second]) for g in self.graphs)


def _layout(node: Node) -> tuple[object, ...]:
    """How a view walks its base; an axis of one element has any stride."""
    pairs = zip(node.shape, node.strides, strict=False)
    return node.shape, tuple(stride for size, stride in pairs if size != 1), node.offset


def plan_delta_rule(
    captured: Captured, rule: DeltaRule, *, buffers: Mapping[int, Stored]
) -> DeltaRulePlan:
    """Plan such a loop as one stage."""
    shapes = [graph[rule.history.inputs[1]].shape for graph in captured.graphs]
    sizes: tuple[Size, ...] = tuple(zip(*shapes, strict=True))

    def access(source: int, axis: int | None) -> Access:
        return _access(captured, source, axis, buffers)

    return DeltaRulePlan(
        title="delta rule, all steps",
        steps=sizes[0],
        outer=sizes[1:-3],
        heads=sizes[-3],
        rows=sizes[ROWS],
        cols=sizes[COLS],
        key=access(rule.key, COLS),
        query=access(rule.query, COLS),
        value=access(rule.value, ROWS),
        decay=None if rule.decay is None else access(rule.decay, None),
        share=None if rule.share is None else access(rule.share, None),
        out=access(rule.out, ROWS),
    )


def _access(
    captured: Captured, source: int, axis: int | None, buffers: Mapping[int, Stored]
) -> Access:
    """Over steps, batch, heads, and one of the axes of the state, if any."""
    walks, offsets = [], []
    stored = buffers[captured.graph.base(source).id]
    for index, graph in enumerate(captured.graphs):
        node = graph[source]
        if node.op is Op.VIEW:
            strides, offset = node.strides, node.offset
        else:
            strides, offset = stored.layout(node.shape, index)
        walks.append((*strides[:ROWS], *(() if axis is None else (strides[axis],))))
        offsets.append(offset)
    return Access(
        tensor=stored.name, strides=tuple(zip(*walks, strict=True)), offset=tuple(offsets)
    )
