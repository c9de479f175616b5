"""Plans loops over time whose steps multiply the state by weights: cells of recurrent networks.

Law: the whole loop is one stage, and nothing that only the next step needs leaves SBUF. It is
planned so only if each value of a step has a row for each sequence and as many features as the
state, or several times as many that are always taken part by part; any other loop is refused here
and goes through HBM step by step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from nki_agent.builtin.capture import Captured
from nki_agent.builtin.graph import (
    ELEMENTWISE,
    SOURCES,
    Graph,
    GraphBuilder,
    Node,
    Op,
    Shape,
    contiguous_strides,
)
from nki_agent.builtin.lower import Lowering
from nki_agent.builtin.pending import Place
from nki_agent.builtin.plan import Stored
from nki_agent.builtin.resident_plan import (
    ResidentPlan,
    StepColumn,
    StepInput,
    StepProduct,
    StepResult,
    StepState,
)
from nki_agent.builtin.tile_steps import Access, Copy, Kind, Size, Tile, step_writes
from nki_agent.builtin.titles import describe
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType

MATRIX_DTYPES = (DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16)
WEIGHTS_SHARE = 0.6
"""Part of SBUF that the weights of all steps may take."""


def _repeat(builder: GraphBuilder, node: Node, inputs: Sequence[int], shape: Shape) -> int:
    """The same operator over other inputs, outside any loop, with another shape."""
    made = replace(node, id=len(builder.nodes), inputs=tuple(inputs), shape=shape, loop=0)
    builder.nodes.append(made)
    return made.id


class NotResidentError(Exception):
    """The loop has another form; only this module and its caller see it."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A value of a step at each shape set in the graphs of one step."""

    node: int
    level: int
    is_row: bool
    """Whether it has one number for each feature, the same for all sequences and steps."""


@dataclass(slots=True)
class _Product:
    x: _Part
    weight: int
    parts: dict[int, _Part] = field(default_factory=dict)


class Step:
    """One step of a loop, part by part: its own small graph at each shape set."""

    def __init__(self, captured: Captured, nodes: Sequence[int]) -> None:
        """Read the nodes of a loop.

        Raises:
            NotResidentError: the loop has another form.
        """
        self.captured = captured
        self.graph = captured.graph
        self.inside = frozenset(nodes)
        self.builders = [GraphBuilder() for _ in captured.graphs]
        self.parts: dict[tuple[int, int], _Part] = {}
        self.inputs: dict[tuple[int, int], _Part] = {}
        self.products: dict[int, _Product] = {}
        self.before: dict[int, _Part] = {}
        written = [n for n in self.graph.nodes if n.op is Op.PARTS and n.name]
        self.histories = [n for n in written if n.inputs[1] in self.inside]
        if not self.histories:
            raise NotResidentError
        names = {n.name for n in self.histories}
        self.states = [n for n in self.graph.nodes if n.op is Op.STATE and n.name in names]
        self.features = self._same([captured.shape(n.id)[-1] for n in self.states])
        self.steps = tuple(g[self.states[0].id].shape[0] - 1 for g in captured.graphs)
        self.axis = self._sequence_axis()
        shape = captured.shape(self.states[0].id)
        self.sequences = shape[self.axis] if self.axis else (1,) * len(captured.graphs)
        if min(self.features) <= 1:
            raise NotResidentError
        after = {n.name: n.inputs[1] for n in self.histories}
        self.after = {n.id: self.value(after[n.name], 0) for n in self.states}
        own = set(after.values())
        users = self.graph.users()
        self.made = [n for n in nodes if n not in own and self._is_read_outside(n, users)]
        if any(self._width(n) != self.features for n in self.made):
            raise NotResidentError
        self.results = {n: self.value(n, 0) for n in self.made}
        if not self.products:
            raise NotResidentError

    @staticmethod
    def _same(sizes: Sequence[Size]) -> Size:
        if len(set(sizes)) != 1:
            raise NotResidentError
        return sizes[0]

    def _sequence_axis(self) -> int:
        """The one axis between time and features that is longer than 1; 0 if there is none."""
        long: set[int] = set()
        rank = len(self.states[0].shape)
        for state in self.states:
            if state.dtype not in MATRIX_DTYPES or len(state.shape) != rank:
                raise NotResidentError
            shape = self.captured.shape(state.id)
            long |= {a for a in range(1, rank - 1) if set(shape[a]) != {1}}
        if len(long) > 1:
            raise NotResidentError
        return long.pop() if long else 0

    def _is_read_outside(self, node_id: int, users: Mapping[int, Sequence[int]]) -> bool:
        readers = [r for r in users[node_id] if r >= 0 and self.graph[r].op is Op.VIEW]
        found = {*users[node_id], *(u for r in readers for u in users[r])} - set(readers)
        return bool(found - self.inside)

    # -- values -----------------------------------------------------------------------------------
    def value(self, source: int, part: int) -> _Part:
        """One part of a value."""
        if (source, part) not in self.parts:
            self.parts[source, part] = self._make(source, part)
        return self.parts[source, part]

    def _make(self, source: int, part: int) -> _Part:
        node, base = self.graph[source], self.graph.base(source)
        if node.op is Op.CONST:
            numbers = [g[source].value for g in self.captured.graphs]
            made = [b.const(n, (), node.dtype) for b, n in zip(self.builders, numbers, strict=True)]
            return _Part(made[0], 0, is_row=True)
        if base.op is Op.STATE:
            return self._state(node, base, part)
        if base.id not in self.inside:
            return self._input(source, part)
        if node.op is Op.VIEW:
            return self.value(base.id, part + self._part_of(source))
        self._require_width(source, part)
        if node.op is Op.MATMUL:
            return self._product(node, part)
        if node.op in ELEMENTWISE:
            return self._elementwise(node, part)
        raise NotResidentError

    def _width(self, source: int) -> Size:
        shape = self.captured.shape(source)
        if not shape:
            raise NotResidentError
        return shape[-1]

    def _require_width(self, source: int, part: int) -> None:
        pairs = zip(self._width(source), self.features, strict=True)
        if any(width % features or part * features >= width for width, features in pairs):
            raise NotResidentError

    def _part_of(self, view: int) -> int:
        """Which part of its base a view begins with."""
        found = set()
        for index, graph in enumerate(self.captured.graphs):
            node, base = graph[view], graph.base(view)
            walk = zip(node.shape, node.strides, contiguous_strides(base.shape), strict=False)
            if len(node.shape) != len(base.shape) or any(n != 1 and a != b for n, a, b in walk):
                raise NotResidentError
            part, rest = divmod(node.offset, self.features[index])
            if rest or any(a != b for a, b in zip(node.shape[:-1], base.shape[:-1], strict=True)):
                raise NotResidentError
            found.add(part)
        return self._same([(part,) for part in found])[0]

    def _add(self, *, is_row: bool) -> int:
        """An operand of the step at each shape set."""
        made = [
            b.add(op=Op.INPUT, shape=shape, dtype=DType.FLOAT32, name=f"operand_{len(b.nodes)}")
            for b, shape in zip(self.builders, self._shapes(is_row=is_row), strict=True)
        ]
        return made[0]

    def _shapes(self, *, is_row: bool) -> list[tuple[int, int]]:
        pairs = zip(self.features, self.sequences, strict=True)
        return [(features, 1 if is_row else count) for features, count in pairs]

    def _state(self, node: Node, base: Node, part: int) -> _Part:
        for graph in self.captured.graphs:
            seen, whole = graph[node.id], graph[base.id]
            plain = contiguous_strides(whole.shape)
            if seen.offset or seen.shape[1:] != whole.shape[1:] or seen.strides != plain:
                raise NotResidentError
        if part or base.id not in {n.id for n in self.states}:
            raise NotResidentError
        if base.id not in self.before:
            self.before[base.id] = _Part(self._add(is_row=False), 1, is_row=False)
        return self.before[base.id]

    def walk(self, source: int) -> list[tuple[int, int, int]]:
        """Strides of an operand over steps and sequences, and its offset, at each shape set."""
        walks = []
        rank = len(self.states[0].shape)
        shape = self.captured.shape(source)
        missing = rank - len(shape)
        long = {axis + missing for axis, sizes in enumerate(shape) if set(sizes) != {1}}
        for graph in self.captured.graphs:
            node = graph[source]
            strides = node.strides if node.op is Op.VIEW else contiguous_strides(node.shape)
            steps = dict(zip(range(rank - len(node.shape), rank), strides, strict=True))
            moving = {axis for axis in long if steps[axis]}
            if not moving <= {0, self.axis, rank - 1} or steps.get(rank - 1) != 1:
                raise NotResidentError
            time = steps[0] if 0 in moving else 0
            sequence = steps[self.axis] if self.axis and self.axis in moving else 0
            walks.append((time, sequence, node.offset if node.op is Op.VIEW else 0))
        return walks

    def _input(self, source: int, part: int) -> _Part:
        node = self.graph[source]
        if node.op in SOURCES - {Op.INPUT} or not node.dtype.is_float:
            raise NotResidentError
        self._require_width(source, part)
        is_row = not any(time or sequence for time, sequence, _ in self.walk(source))
        found = _Part(self._add(is_row=is_row), 0 if is_row else 1, is_row=is_row)
        self.inputs[source, part] = found
        return found

    def _product(self, node: Node, part: int) -> _Part:
        left, weight = node.inputs
        if node.id not in self.products:
            if any(a != b for a, b in zip(self._width(left), self.features, strict=True)):
                raise NotResidentError
            if self.graph[left].dtype is not self.graph[weight].dtype:
                raise NotResidentError
            self._require_matrix(weight)
            self.products[node.id] = _Product(self.value(left, 0), weight)
        product = self.products[node.id]
        if product.x.is_row:
            raise NotResidentError
        product.parts[part] = _Part(self._add(is_row=False), product.x.level + 1, is_row=False)
        return product.parts[part]

    def _require_matrix(self, weight: int) -> None:
        """A weight is one matrix, the same for all steps and sequences."""
        node = self.graph[weight]
        if self.graph.base(weight).id in self.inside or node.dtype not in MATRIX_DTYPES:
            raise NotResidentError
        for graph in self.captured.graphs:
            if any(size != 1 for size in graph[weight].shape[:-2]):
                raise NotResidentError
        for strides in (self.matrix(weight)[0], self.matrix(weight)[1]):
            if not all(strides):
                raise NotResidentError
        if not any(set(strides) == {1} for strides in self.matrix(weight)[:2]):
            raise NotResidentError

    def matrix(self, weight: int) -> tuple[Size, Size, Size]:
        """A weight's strides over rows and columns, and its offset."""
        rows, cols, offsets = [], [], []
        for graph in self.captured.graphs:
            node = graph[weight]
            strides = node.strides if node.op is Op.VIEW else contiguous_strides(node.shape)
            rows.append(strides[-2])
            cols.append(strides[-1])
            offsets.append(node.offset if node.op is Op.VIEW else 0)
        return tuple(rows), tuple(cols), tuple(offsets)

    def _elementwise(self, node: Node, part: int) -> _Part:
        whole = self._width(node.id)
        inputs = []
        for source in node.inputs:
            width = self.captured.shape(source)[-1:] or ((1,) * len(whole),)
            is_const = self.graph[source].op is Op.CONST
            if not is_const and width[0] != whole:
                raise NotResidentError
            inputs.append(self.value(source, 0 if is_const else part))
        is_row = all(i.is_row for i in inputs)
        made = [
            _repeat(b, node, [i.node for i in inputs], shape)
            for b, shape in zip(self.builders, self._shapes(is_row=is_row), strict=True)
        ]
        return _Part(made[0], max(i.level for i in inputs), is_row=is_row)

    # -- what the plan needs ----------------------------------------------------------------------
    @property
    def num_levels(self) -> int:
        """Levels of steps, the one before the loop among them."""
        return 1 + max(1, *(p.level for p in self.parts.values()))

    def share(self, chip: ChipSpec) -> float:
        """How much of SBUF that weights may take its own take, at the shape set with the most."""
        found = []
        for graph, features in zip(self.captured.graphs, self.features, strict=True):
            blocks = -(-features // chip.partitions)
            cols = sum(graph[p.weight].shape[-1] + blocks for p in self.products.values())
            found.append(blocks * cols * DType.FLOAT32.itemsize)
        return max(found) / (chip.sbuf_usable_partition_bytes * WEIGHTS_SHARE)

    def graphs(self) -> Captured:
        """One step at each shape set."""
        return Captured(tuple(Graph(tuple(b.nodes), (), ()) for b in self.builders))


def find_resident(captured: Captured, nodes: Sequence[int], chip: ChipSpec) -> Step | None:
    """The loop of these nodes as steps whose state stays in SBUF; None if it has another form."""
    try:
        step = Step(captured, nodes)
    except NotResidentError:
        return None
    bank = chip.psum_bank_bytes // DType.FLOAT32.itemsize
    is_small = all(-(-n // chip.partitions) * 2 <= bank for n in step.features)
    return step if is_small and step.share(chip) <= 1 else None


class ResidentPlanner:
    """Plans one such loop."""

    def __init__(
        self,
        captured: Captured,
        step: Step,
        *,
        buffers: Mapping[int, Stored],
        chip: ChipSpec,
    ) -> None:
        """`buffers` names every value in HBM by its base node."""
        self.captured = captured
        self.step = step
        self.buffers = buffers
        one = step.graphs()
        places = {
            part.node: Place(Kind.ROW if part.is_row else Kind.FULL, part.level)
            for part in step.parts.values()
        }
        self.lowering = Lowering(
            one.graph,
            places=places,
            numbers=one.numbers(),
            generation=chip.generation,
            num_levels=step.num_levels,
            is_packed=True,
        )
        self.lowering.reserve(stored.name for stored in buffers.values())
        self.taken: set[Tile] = set()
        self.lowering.reserve(("rows", "each", "cols", "start", "end", "t", "t0", "c0", "count"))

    def plan(self, nodes: Sequence[int]) -> ResidentPlan:
        """Plan the stage."""
        step = self.step
        inputs, columns = self._inputs(), self._columns()
        before = {
            state: self._bind(part, f"{self.buffers[state].name}_before", self.buffers[state].dtype)
            for state, part in step.before.items()
        }
        products = self._steps()
        results = [self._state_result(state) for state in step.after]
        results += [self._result(node) for node in step.results]
        states = [
            StepState(
                before=before[state.id],
                after=results[index].tile,
                initial=self._initial(state),
            )
            for index, state in enumerate(step.states)
            if state.id in before
        ]
        return ResidentPlan(
            title=f"all steps, {describe(self.captured, nodes)}",
            steps=step.steps,
            sequences=step.sequences,
            features=step.features,
            inputs=tuple(inputs),
            columns=tuple(columns),
            products=tuple(products),
            results=tuple(results),
            states=tuple(states),
            levels=tuple(tuple(steps) for steps in self.lowering.levels),
        )

    def _dtype(self, node_id: int) -> DType:
        return self.captured.graph[node_id].dtype

    def _bind(self, part: _Part, name: str, dtype: DType) -> Tile:
        kind = Kind.ROW if part.is_row else Kind.FULL
        tile = self.lowering.tile(name, Place(kind, part.level), dtype)
        self.lowering.bind(part.node, tile)
        return tile

    # -- operands ---------------------------------------------------------------------------------
    def _access(self, source: int, part: int) -> Access:
        walks = self.step.walk(source)
        pairs = zip(walks, self.step.features, strict=True)
        return Access(
            tensor=self.buffers[self.captured.graph.base(source).id].name,
            strides=(
                tuple(time for time, _, _ in walks),
                tuple(sequence for _, sequence, _ in walks),
                (1,) * len(walks),
            ),
            offset=tuple(offset + part * features for (_, _, offset), features in pairs),
        )

    def _inputs(self) -> list[StepInput]:
        """The parts that lie side by side are loaded together."""
        found: list[StepInput] = []
        parts = [(k, p) for k, p in self.step.inputs.items() if not p.is_row]
        by_place = sorted(
            ((self._access(*key), part) for key, part in parts),
            key=lambda pair: (pair[0].tensor, pair[0].strides, pair[0].offset),
        )
        dtypes = {stored.name: stored.dtype for stored in self.buffers.values()}
        for access, part in by_place:
            tile = self._bind(part, f"{access.tensor}_part", dtypes[access.tensor])
            last = found[-1] if found else None
            if last is not None and access == self._behind(last):
                found[-1] = StepInput(
                    access=last.access, parts=(*last.parts, tile), dtype=last.dtype
                )
            else:
                found.append(StepInput(access=access, parts=(tile,), dtype=tile.dtype))
        return found

    def _behind(self, group: StepInput) -> Access:
        """Where the part behind the last of a group lies."""
        pairs = zip(group.access.offset, self.step.features, strict=True)
        return Access(
            tensor=group.access.tensor,
            strides=group.access.strides,
            offset=tuple(offset + len(group.parts) * n for offset, n in pairs),
        )

    def _columns(self) -> list[StepColumn]:
        found = []
        for key, part in self.step.inputs.items():
            if part.is_row:
                access = self._access(*key)
                own = self.buffers[self.captured.graph.base(key[0]).id].dtype
                tile = self._bind(part, f"{access.tensor}_column", own)
                found.append(StepColumn(tile=tile, access=access))
        return found

    def _initial(self, state: Node) -> Access:
        shapes = [g[state.id].shape for g in self.captured.graphs]
        axis = self.step.axis
        return Access(
            tensor=self.buffers[state.id].name,
            strides=(
                tuple(contiguous_strides(s)[axis] if axis else s[-1] for s in shapes),
                (1,) * len(shapes),
            ),
            offset=(0,) * len(shapes),
        )

    # -- steps ------------------------------------------------------------------------------------
    def _steps(self) -> list[StepProduct]:
        """Lower the nodes of a step in order; a product's operand is ready in front of it."""
        made = {part.node: (node, number) for node, p in self.step.products.items()
                for number, part in p.parts.items()}  # fmt: skip
        tiles: dict[int, list[tuple[int, Tile]]] = {}
        operands: dict[int, Tile] = {}
        graph = self.lowering.graph
        for node in graph.nodes:
            if node.id not in made:
                self.lowering.lower(node)
                continue
            product, number = made[node.id]
            known = self.step.products[product]
            if product not in operands:
                dtype = self._dtype(known.weight)
                operands[product] = self._operand(known.x.node, dtype)
            part = known.parts[number]
            tile = Tile(
                name=self.lowering.name("product"), kind=Kind.FULL, dtype=DType.FLOAT32,
                level=part.level, in_psum=True,
            )  # fmt: skip
            self.lowering.bind(node.id, tile)
            tiles.setdefault(product, []).append((number, tile))
        return [self._product(n, operands[n], parts) for n, parts in tiles.items()]

    def _operand(self, node: int, dtype: DType) -> Tile:
        value = self.lowering.value(node)
        assert not isinstance(value, tuple)
        ready = not value.scalars and value.tile.dtype is dtype
        return self.lowering.settle(node, dtype=None if ready else dtype)

    def _product(self, node: int, x: Tile, parts: Sequence[tuple[int, Tile]]) -> StepProduct:
        weight = self.step.products[node].weight
        rows, cols, offset = self.step.matrix(weight)
        name = self.buffers[self.captured.graph.base(weight).id].name
        return StepProduct(
            x=x,
            w=Access(tensor=name, strides=(rows, cols), offset=offset),
            columns=self.captured.shape(weight)[-1],
            dtype=self._dtype(weight),
            parts=tuple(parts),
            level=parts[0][1].level,
        )

    # -- results ----------------------------------------------------------------------------------
    def _state_result(self, state: int) -> StepResult:
        name = self.captured.graph[state].name
        history = next(n for n in self.step.histories if n.name == name)
        graph = self.captured.graph
        read = [i for n in graph.nodes if n.op is not Op.VIEW for i in n.inputs]
        is_read = any(graph.base(i).id == history.id for i in (*read, *graph.outputs))
        return self._store(history.inputs[1], self.step.after[state], is_read=is_read)

    def _result(self, node: int) -> StepResult:
        return self._store(node, self.step.results[node], is_read=True)

    def _store(self, node: int, part: _Part, *, is_read: bool) -> StepResult:
        stored = self.buffers[node]
        tile = self.lowering.finish(part.node, f"{stored.name}_tile", stored.dtype)
        steps = [step for steps in self.lowering.levels[1:] for step in steps]
        is_own = any(tile in step_writes(step) for step in steps)
        if not is_own or tile in self.taken or tile.kind is not Kind.FULL:
            # What is no tile of this step alone is copied to where the results lie.
            place = Place(Kind.FULL, max(1, tile.level))
            copied = self.lowering.tile(f"{stored.name}_tile", place, stored.dtype)
            self.lowering.emit(copied.level, Copy(dst=copied, src=tile))
            tile = copied
        self.taken.add(tile)
        if not is_read:
            return StepResult(tile=tile, access=None)
        layouts = [
            stored.layout(g[node].shape, index) for index, g in enumerate(self.captured.graphs)
        ]
        axis = self.step.axis
        access = Access(
            tensor=stored.name,
            strides=(
                tuple(strides[0] for strides, _ in layouts),
                tuple(strides[axis] if axis else strides[-2] for strides, _ in layouts),
                (1,) * len(layouts),
            ),
            offset=tuple(offset for _, offset in layouts),
        )
        return StepResult(tile=tile, access=access)


def plan_resident(
    captured: Captured,
    nodes: Sequence[int],
    *,
    buffers: Mapping[int, Stored],
    chip: ChipSpec,
    taken: Mapping[str, int],
) -> tuple[ResidentPlan, Mapping[str, int]]:
    """Plan a loop that `find_resident` found, and say which names are taken then."""
    step = Step(captured, nodes)
    planner = ResidentPlanner(captured, step, buffers=buffers, chip=chip)
    planner.lowering.go_on(taken)
    return planner.plan(nodes), planner.lowering.taken_names
