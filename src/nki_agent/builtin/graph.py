"""A reference as a small graph of our own operators.

Law: a node's value has the shape that the reference gives it and is computed in float32; `dtype`
says what the reference would store. Every layout change (transpose, reshape, slice, expand) is one
VIEW: sizes, strides and an offset over the contiguous base node, so that layouts compose and
compare. Not covered: data-dependent shapes and control flow; `capture` refuses them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from nki_agent.base.errors import NkiAgentError
from nki_agent.isa.dtype import DType

Shape = tuple[int, ...]


OTHER_WAYS = "write it with other operators, or use another `--model`"
"""The hint for an operator without a rule."""


class UnsupportedError(NkiAgentError):
    """The built-in author cannot write this: which node, why, and what to try."""

    def __init__(self, node: str, why: str, *, hint: str = "") -> None:
        """Join the three parts in one readable text."""
        text = f"the built-in author cannot write `{node}`: {why}"
        super().__init__(text if not hint else f"{text}\n  hint: {hint}")
        self.node = node
        self.why = why
        self.hint = hint


class Op(StrEnum):
    """What a node does. UNARY, BINARY and REDUCE name their function in `Node.function`."""

    INPUT = "input"
    CONST = "const"
    VIEW = "view"
    UNARY = "unary"
    BINARY = "binary"
    WHERE = "where"
    REDUCE = "reduce"
    SOFTMAX = "softmax"
    MATMUL = "matmul"
    TRANSPOSE = "transpose"
    """A VIEW whose rows are not contiguous, stored row by row."""
    IOTA = "iota"
    """Whole numbers that run along the axes: `value` at the start, `strides` for their steps."""
    PARTS = "parts"
    """Values side by side: each input fills a region of the result that begins at its place."""
    PICK = "pick"
    """Elements or rows by run-time indices, or by their rank in a row: see `picks`."""


ELEMENTWISE = frozenset({Op.UNARY, Op.BINARY, Op.WHERE})
ROWWISE = ELEMENTWISE | {Op.REDUCE}
SOURCES = frozenset({Op.INPUT, Op.CONST, Op.IOTA})
"""What no stage computes."""
COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
BITS = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"})
"""Functions of whole numbers bit by bit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One value of the graph.

    `strides` and `offset` (in elements of the base) belong to VIEW; `axes` to REDUCE
    (non-negative); `value` to CONST; `function` to UNARY, BINARY, REDUCE (`add`, `maximum`,
    `minimum`, `multiply`), SOFTMAX (`softmax` or `log_softmax`); `name` to INPUT; `causal` to
    SOFTMAX of masked attention scores; `places` (elements of the result) to PARTS.
    """

    id: int
    op: Op
    shape: Shape
    dtype: DType
    inputs: tuple[int, ...] = ()
    function: str = ""
    axes: tuple[int, ...] = ()
    value: float = 0.0
    strides: Shape = ()
    offset: int = 0
    name: str = ""
    causal: bool = False
    places: tuple[int, ...] = ()
    origin: str = ""
    """The reference's own word for it, for messages."""
    label: str = ""
    """What an engineer would call the value, where the rule that made it knows."""

    @property
    def num_elems(self) -> int:
        """Elements of the value."""
        return math.prod(self.shape)

    @property
    def structure(self) -> tuple[object, ...]:
        """What must be equal between captures at different shapes."""
        return (self.op, self.inputs, self.function, self.axes, self.dtype, len(self.shape))


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in an order in which each comes after its inputs; ids are indices into `nodes`."""

    nodes: tuple[Node, ...]
    arguments: tuple[str, ...]
    """Every kernel argument in order, used or not."""
    outputs: tuple[int, ...]

    def __getitem__(self, node_id: int) -> Node:
        """The node of this id."""
        return self.nodes[node_id]

    def users(self) -> dict[int, list[int]]:
        """Ids of the nodes that read each node; an output counts as a reader with id -1."""
        found: dict[int, list[int]] = {node.id: [] for node in self.nodes}
        for node in self.nodes:
            for source in node.inputs:
                found[source].append(node.id)
        for output in self.outputs:
            found[output].append(-1)
        return found

    def base(self, node_id: int) -> Node:
        """The node itself, or the base of a VIEW."""
        node = self.nodes[node_id]
        return self.nodes[node.inputs[0]] if node.op is Op.VIEW else node


def is_same_ranking(first: Node, second: Node) -> bool:
    """Whether two nodes are the values and the places of one ranking of rows."""
    order = first.function.partition("_")[0]
    return (
        order in ("top", "bottom")
        and order == second.function.partition("_")[0]
        and first.inputs == second.inputs
        and first.shape == second.shape
    )


def is_transposed(node: Node) -> bool:
    """Whether a VIEW walks its base across rows: an axis other than the last is contiguous."""
    if node.op is not Op.VIEW or node.shape[-1:] in ((), (1,)) or node.strides[-1] in (0, 1):
        return False
    return any(
        stride == 1 and size > 1
        for size, stride in zip(node.shape[:-1], node.strides[:-1], strict=True)
    )


def is_position_mask(nodes: Sequence[Node], node: Node) -> bool:
    """Whether a value compares whole numbers that run along the axes with 0."""
    if node.op is not Op.BINARY or node.function not in COMPARISONS:
        return False
    first, second = (nodes[i] for i in node.inputs)
    return first.op is Op.IOTA and second.op is Op.CONST


def contiguous_strides(shape: Sequence[int]) -> Shape:
    """Row-major strides in elements."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def broadcast_shapes(*shapes: Shape) -> Shape:
    """NumPy broadcasting; ValueError if the shapes do not fit."""
    rank = max((len(s) for s in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, start=rank - len(shape)):
            if size != 1 and result[axis] not in (1, size):
                raise ValueError(f"shapes {shapes} do not broadcast")
            result[axis] = max(result[axis], size) if size else 0
    return tuple(result)


@dataclass(slots=True)
class GraphBuilder:
    """Adds nodes one by one; folds constants and views of views as it goes."""

    nodes: list[Node] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    origin: str = ""

    def _add(self, **fields: object) -> int:
        node = Node(id=len(self.nodes), origin=self.origin, **fields)  # type: ignore[arg-type]
        self.nodes.append(node)
        return node.id

    def repeat(self, node: Node, inputs: Sequence[int]) -> int:
        """The same node over other inputs."""
        self.nodes.append(replace(node, id=len(self.nodes), inputs=tuple(inputs)))
        return self.nodes[-1].id

    def finish(self, outputs: Sequence[int]) -> Graph:
        """The graph without dead nodes."""
        return prune(Graph(tuple(self.nodes), tuple(self.arguments), tuple(outputs)))

    def input(self, name: str, shape: Shape, dtype: DType) -> int:
        """A kernel argument."""
        self.arguments.append(name)
        return self._add(op=Op.INPUT, shape=shape, dtype=dtype, name=name)

    def const(self, value: float, shape: Shape = (), dtype: DType = DType.FLOAT32) -> int:
        """One number, broadcast to `shape`."""
        return self._add(op=Op.CONST, shape=shape, dtype=dtype, value=float(value))

    def label(self, node_id: int, label: str) -> int:
        """Say what a value is called."""
        self.nodes[node_id] = replace(self.nodes[node_id], label=label)
        return node_id

    def view(self, source: int, *, shape: Shape, strides: Shape, offset: int = 0) -> int:
        """A strided view of a node that is no VIEW itself; the identity returns the node."""
        base = self.nodes[source]
        assert base.op is not Op.VIEW
        if base.op is Op.CONST:
            return self.const(base.value, shape, base.dtype)
        if base.op is Op.IOTA:
            return self._iota_view(base, shape=shape, strides=strides, offset=offset)
        if is_position_mask(self.nodes, base) and base.shape != shape:
            inner = self.view(base.inputs[0], shape=shape, strides=strides, offset=offset)
            return self.binary(base.function, inner, base.inputs[1], base.dtype)
        if shape == base.shape and offset == 0:
            wanted = contiguous_strides(shape)
            if all(size == 1 or a == b for size, a, b in zip(shape, strides, wanted, strict=True)):
                return source
        return self._add(
            op=Op.VIEW,
            shape=shape,
            dtype=base.dtype,
            inputs=(source,),
            strides=strides,
            offset=offset,
        )

    def iota(
        self, shape: Shape, *, steps: Shape, start: int = 0, dtype: DType = DType.INT32
    ) -> int:
        """Whole numbers: `start`, and `steps[axis]` more for each index of an axis."""
        return self._add(op=Op.IOTA, shape=shape, dtype=dtype, strides=steps, value=float(start))

    def _iota_view(self, base: Node, *, shape: Shape, strides: Shape, offset: int) -> int:
        """A view of whole numbers is such numbers too, while its axes are axes of the base."""
        walk = contiguous_strides(base.shape)
        steps: list[int] = []
        for size, stride in zip(shape, strides, strict=True):
            inner = [
                i
                for i, w in enumerate(walk)
                if w and stride % w == 0 and (size - 1) * (stride // w) < base.shape[i]
            ]
            if size == 1 or stride == 0:
                steps.append(0)
            elif inner:
                axis = min(inner, key=lambda i: -walk[i])
                steps.append(base.strides[axis] * (stride // walk[axis]))
            else:
                raise UnsupportedError(base.origin, "a view across its axes")
        start = int(base.value)
        for size, stride, step in zip(base.shape, walk, base.strides, strict=True):
            index = offset // stride % size if stride else 0
            start += index * step
        return self.iota(shape, steps=tuple(steps), start=start, dtype=base.dtype)

    def parts(self, shape: Shape, dtype: DType, inputs: Sequence[int], places: Shape) -> int:
        """Values of the result's rank side by side, each at its place. Each gets its own node."""
        own = [self.unary("copy", i, dtype) for i in inputs]
        return self._add(
            op=Op.PARTS, shape=shape, dtype=dtype, inputs=tuple(own), places=tuple(places)
        )

    def unary(self, function: str, source: int, dtype: DType | None = None) -> int:
        """One function of one value."""
        node = self.nodes[source]
        return self._add(
            op=Op.UNARY,
            shape=node.shape,
            dtype=dtype or node.dtype,
            inputs=(source,),
            function=function,
        )

    def binary(self, function: str, first: int, second: int, dtype: DType | None = None) -> int:
        """One function of two values, broadcast."""
        a, b = self.nodes[first], self.nodes[second]
        if Op.IOTA in (a.op, b.op) and (made := fold_iota(self, function, a, b)) is not None:
            return made
        if a.op is Op.CONST and b.op is Op.CONST and function in _FOLD:
            shape = broadcast_shapes(a.shape, b.shape)
            return self.const(_FOLD[function](a.value, b.value), shape, dtype or a.dtype)
        if dtype is None:
            dtype = DType.BOOL if function in COMPARISONS else _wider(a, b)
        return self._add(
            op=Op.BINARY,
            shape=broadcast_shapes(a.shape, b.shape),
            dtype=dtype,
            inputs=(first, second),
            function=function,
        )

    def where(self, condition: int, first: int, second: int) -> int:
        """`first` where the condition holds, else `second`."""
        shapes = [self.nodes[i].shape for i in (condition, first, second)]
        return self._add(
            op=Op.WHERE,
            shape=broadcast_shapes(*shapes),
            dtype=_wider(self.nodes[first], self.nodes[second]),
            inputs=(condition, first, second),
        )

    def reduce(self, function: str, source: int, axes: Sequence[int], *, keepdims: bool) -> int:
        """A reduction over `axes` (any sign).

        Only trailing axes are reduced directly: others are moved to the end first, and a reduction
        of everything goes row by row, then over the rows.
        """
        node = self.nodes[source]
        rank = len(node.shape)
        wanted = tuple(sorted({axis % rank for axis in axes})) if rank else ()
        kept = tuple(axis for axis in range(rank) if axis not in wanted)
        if len(wanted) == rank > 1:
            rows = self._reduce_trailing(function, source, 1)
            column = self._reshape(rows, node.shape[:-1])
            total = self.reduce(function, column, wanted[:-1], keepdims=True)
            return self._reshape(self.base_of(total), (1,) * rank if keepdims else ())
        moved = source
        if wanted != tuple(range(rank - len(wanted), rank)):
            moved = self.permute(source, (*kept, *wanted))
        reduced = self._reduce_trailing(function, moved, len(wanted))
        if keepdims and moved == source:
            return reduced
        sizes = [1 if axis in wanted else size for axis, size in enumerate(node.shape)]
        return self._reshape(
            reduced, tuple(sizes) if keepdims else tuple(node.shape[axis] for axis in kept)
        )

    def _reduce_trailing(self, function: str, source: int, count: int) -> int:
        node = self.nodes[source]
        rank = len(node.shape)
        return self._add(
            op=Op.REDUCE,
            shape=(*node.shape[: rank - count], *(1,) * count),
            dtype=node.dtype,
            inputs=(source,),
            function=function,
            axes=tuple(range(rank - count, rank)),
        )

    def base_of(self, node_id: int) -> int:
        """The node itself, or the base of a VIEW."""
        node = self.nodes[node_id]
        return node.inputs[0] if node.op is Op.VIEW else node_id

    def _reshape(self, source: int, shape: Shape) -> int:
        """Another shape of a node that is no VIEW."""
        return self.view(source, shape=shape, strides=contiguous_strides(shape))

    def permute(self, source: int, order: Sequence[int]) -> int:
        """The axes of any node in another order."""
        node = self.nodes[source]
        strides = node.strides if node.op is Op.VIEW else contiguous_strides(node.shape)
        return self.view(
            node.inputs[0] if node.op is Op.VIEW else source,
            shape=tuple(node.shape[axis] for axis in order),
            strides=tuple(strides[axis] for axis in order),
            offset=node.offset,
        )

    def append_axis(self, source: int) -> int:
        """A last axis of one element."""
        node = self.nodes[source]
        strides = node.strides if node.op is Op.VIEW else contiguous_strides(node.shape)
        return self.view(
            node.inputs[0] if node.op is Op.VIEW else source,
            shape=(*node.shape, 1),
            strides=(*strides, 1),
            offset=node.offset,
        )

    def softmax(self, source: int, *, function: str = "softmax", causal: bool = False) -> int:
        """Softmax or log_softmax over the last axis."""
        node = self.nodes[source]
        return self._add(
            op=Op.SOFTMAX,
            shape=node.shape,
            dtype=node.dtype,
            inputs=(source,),
            function=function,
            axes=(len(node.shape) - 1,),
            causal=causal,
        )

    def matmul(self, first: int, second: int, dtype: DType) -> int:
        """[..., M, K] @ [..., K, N] with broadcast leading axes.

        Operands that were only widened are taken as they were: the sums are in float32 anyway.
        """
        narrow = self._narrow(first), self._narrow(second)
        if None not in narrow and self.nodes[narrow[0]].dtype is self.nodes[narrow[1]].dtype:  # type: ignore[index]
            first, second = narrow  # type: ignore[assignment]
        a, b = self.nodes[first], self.nodes[second]
        lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return self._add(
            op=Op.MATMUL,
            shape=(*lead, a.shape[-2], b.shape[-1]),
            dtype=dtype,
            inputs=(first, second),
        )

    def _narrow(self, node_id: int) -> int | None:
        """What was cast to float32 from a shorter float, under the same view; None if not cast."""
        node, base = self.nodes[node_id], self.nodes[self.base_of(node_id)]
        if base.op is not Op.UNARY or base.function != "copy" or base.dtype is not DType.FLOAT32:
            return None
        source = self.nodes[base.inputs[0]]
        if source.dtype in (DType.INT8, DType.UINT8):
            # bfloat16 holds every whole number of eight bits.
            source = self.nodes[self.unary("copy", source.id, DType.BFLOAT16)]
        if not source.dtype.is_float or source.dtype.itemsize >= base.dtype.itemsize:
            return None
        if node.op is not Op.VIEW:
            return source.id
        if source.op is Op.VIEW:
            return None
        return self.view(source.id, shape=node.shape, strides=node.strides, offset=node.offset)

    def pick(self, function: str, inputs: Sequence[int], shape: Shape, dtype: DType) -> int:
        """A PICK of operands that each lie row by row from their first element on."""
        return self._add(
            op=Op.PICK, function=function, inputs=tuple(inputs), shape=shape, dtype=dtype
        )

    def transpose(self, source: int) -> int:
        """A view stored row by row through the Tensor Engine."""
        node = self.nodes[source]
        return self._add(op=Op.TRANSPOSE, shape=node.shape, dtype=node.dtype, inputs=(source,))

    def cast(self, source: int, dtype: DType) -> int:
        """The same value stored in another dtype."""
        node = self.nodes[source]
        if node.dtype is dtype:
            return source
        if node.op is Op.CONST:
            return self.const(node.value, node.shape, dtype)
        if node.op is Op.IOTA and dtype is not DType.BOOL:
            return self.iota(node.shape, steps=node.strides, start=int(node.value), dtype=dtype)
        return self.unary("copy", source, dtype)


_FOLD: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "maximum": max,
    "minimum": min,
}


_MIRRORED = {
    "less": "greater", "greater": "less", "less_equal": "greater_equal",
    "greater_equal": "less_equal", "equal": "equal", "not_equal": "not_equal",
}  # fmt: skip


def fold_iota(builder: GraphBuilder, function: str, a: Node, b: Node) -> int | None:
    """Sums, multiples and comparisons of whole numbers along axes; None if it is none of these."""
    if not all(n.op is Op.IOTA or (n.op is Op.CONST and n.value.is_integer()) for n in (a, b)):
        return None
    if a.op is Op.CONST and function in COMPARISONS:
        return fold_iota(builder, _MIRRORED[function], b, a)
    shape = broadcast_shapes(a.shape, b.shape)
    (x, start), (y, shift) = _runs(a, len(shape)), _runs(b, len(shape))
    dtype = a.dtype if a.op is Op.IOTA else b.dtype
    match function:
        case "add":
            steps, offset = [p + q for p, q in zip(x, y, strict=True)], start + shift
        case "subtract":
            steps, offset = [p - q for p, q in zip(x, y, strict=True)], start - shift
        case "multiply" if Op.CONST in (a.op, b.op):
            factor = int(a.value if a.op is Op.CONST else b.value)
            runs, begin = (y, shift) if a.op is Op.CONST else (x, start)
            steps, offset = [p * factor for p in runs], begin * factor
        case _ if function in COMPARISONS and not (b.op is Op.CONST and b.value == 0):
            apart = fold_iota(builder, "subtract", a, b)
            assert apart is not None
            return builder.binary(function, apart, builder.const(0.0), DType.BOOL)
        case _:
            return None
    return builder.iota(shape, steps=tuple(steps), start=offset, dtype=dtype)


def _runs(node: Node, rank: int) -> tuple[list[int], int]:
    """Steps over `rank` axes, and the number at their start."""
    if node.op is Op.CONST:
        return [0] * rank, int(node.value)
    steps = [0 if n == 1 else step for n, step in zip(node.shape, node.strides, strict=True)]
    return [0] * (rank - len(steps)) + steps, int(node.value)


def _wider(first: Node, second: Node) -> DType:
    """The dtype of an operation on two values; a number takes the other's dtype."""
    if first.op is Op.CONST and not first.shape:
        return second.dtype
    if second.op is Op.CONST and not second.shape:
        return first.dtype
    pair = {first.dtype, second.dtype}
    if len(pair) == 1:
        return first.dtype
    floats = [d for d in (first.dtype, second.dtype) if d.is_float]
    if len(floats) == 1:
        return floats[0]
    return DType.FLOAT32 if floats else max(pair, key=lambda d: d.itemsize)


def prune(graph: Graph) -> Graph:
    """Drop the nodes that no output needs and number the rest anew."""
    needed: set[int] = set()
    stack = list(graph.outputs)
    while stack:
        node_id = stack.pop()
        if node_id not in needed:
            needed.add(node_id)
            stack.extend(graph[node_id].inputs)
    new_id = {old: new for new, old in enumerate(sorted(needed))}
    nodes = tuple(
        replace(node, id=new_id[node.id], inputs=tuple(new_id[i] for i in node.inputs))
        for node in graph.nodes
        if node.id in needed
    )
    return Graph(nodes, graph.arguments, tuple(new_id[i] for i in graph.outputs))
