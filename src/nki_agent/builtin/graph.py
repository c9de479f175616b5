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
        hint = hint or OTHER_WAYS
        super().__init__(f"the built-in author cannot write `{node}`: {why}\n  hint: {hint}")
        self.node = node
        self.why = why
        self.hint = hint


class Op(StrEnum):
    """What a node does. UNARY, BINARY, REDUCE and FOLD name it in `Node.function`."""

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
    SCAN = "scan"
    """Along the last axis: a running `add` or `multiply`, or `linear`: h = a * h before + b."""
    IOTA = "iota"
    """Whole numbers that run along the axes: `value` at the start, `strides` for their steps."""
    CONVOLUTION = "convolution"
    """`function` says how channels mix: `dense`, `grouped` or `depthwise`; see `Node.window`."""
    POOL = "pool"
    """A reduction (`function`) of each window of `Node.window`; outside is its neutral element."""
    PARTS = "parts"
    """Values side by side: each input fills a region of the result that begins at its place."""
    LANES = "lanes"
    """A vector reduced to one number for each partition."""
    STATE = "state"
    """What each step of a loop finds: rows that the PARTS node of the same name writes."""
    PICK = "pick"
    """Elements or rows by run-time indices, or by their rank in a row: see `picks`."""
    FOLD = "fold"
    """A REDUCE whose elements lie apart, one run of results from the next: see `folds`."""


ELEMENTWISE = frozenset({Op.UNARY, Op.BINARY, Op.WHERE})
ROWWISE = ELEMENTWISE | {Op.REDUCE, Op.SCAN, Op.LANES}
SOURCES = frozenset({Op.INPUT, Op.CONST, Op.IOTA, Op.STATE})
"""What no stage computes."""
PADDED = "pad"  # the function of a POOL of single elements; outside is its `value`
WINDOWED = frozenset({Op.CONVOLUTION, Op.POOL})
"""What reads the last axes through a window that moves along them."""
PRODUCTS = WINDOWED | {Op.MATMUL}
"""What begins a stage that takes the elementwise nodes behind it."""
COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
BITS = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"})
"""Functions of whole numbers bit by bit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How a window moves along the last axes: one number for each of them.

    `before` counts the elements outside that the first window covers. A transposed convolution
    writes through its window what others read.
    """

    kernel: Shape
    stride: Shape
    dilation: Shape
    before: Shape
    groups: int = 1
    is_transposed: bool = False


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
    loop: int = 0
    """The loop over time that computes it step by step along its first axis; 0 is none."""
    window: Window | None = None
    is_fence: bool = False
    """Of a VIEW: who reads it is in another stage than its base, along axes that suit it better."""
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
        turned = self.window is not None and self.window.is_transposed
        return (
            self.op, self.inputs, self.function, self.axes, self.dtype, len(self.shape),
            self.loop, turned,
        )  # fmt: skip


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
        for reader, source in ((node.id, i) for node in self.nodes for i in node.inputs):
            found[source].append(reader)
        for output in self.outputs:
            found[output].append(-1)
        return found

    def base(self, node_id: int) -> Node:
        """The node itself, or the base of a VIEW."""
        node = self.nodes[node_id]
        return self.nodes[node.inputs[0]] if node.op is Op.VIEW else node


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
    loop: int = 0
    keeps_views: bool = False
    """Whether a view that changes nothing is a node too, as it is at other sizes."""

    def add(self, **fields: object) -> int:
        """A node of these fields."""
        node = Node(id=len(self.nodes), origin=self.origin, loop=self.loop, **fields)  # type: ignore[arg-type]
        self.nodes.append(node)
        return node.id

    def repeat(self, node: Node, inputs: Sequence[int]) -> int:
        """The same node over other inputs."""
        self.nodes.append(replace(node, id=len(self.nodes), inputs=tuple(inputs)))
        return self.nodes[-1].id

    def input(self, name: str, shape: Shape, dtype: DType) -> int:
        """A kernel argument."""
        self.arguments.append(name)
        return self.add(op=Op.INPUT, shape=shape, dtype=dtype, name=name)

    def const(self, value: float, shape: Shape = (), dtype: DType = DType.FLOAT32) -> int:
        """One number, broadcast to `shape`."""
        return self.add(op=Op.CONST, shape=shape, dtype=dtype, value=float(value))

    def label(self, node_id: int, label: str) -> int:
        """Say what a value is called."""
        self.nodes[node_id] = replace(self.nodes[node_id], label=label)
        return node_id

    def fence(self, node_id: int) -> int:
        """Keep who reads this view out of the stage that makes its base."""
        assert self.nodes[node_id].op is Op.VIEW
        self.nodes[node_id] = replace(self.nodes[node_id], is_fence=True)
        return node_id

    def view(
        self,
        source: int,
        *,
        shape: Shape,
        strides: Shape,
        offset: int = 0,
        is_moved: bool = False,
    ) -> int:
        """A strided view of a node that is no VIEW itself; the identity returns the node.

        `is_moved` says that it is an identity at most by chance, where axes have one element.
        """
        base = self.nodes[source]
        assert base.op is not Op.VIEW
        if base.op is Op.CONST:
            return self.const(base.value, shape, base.dtype)
        if base.op is Op.IOTA:
            return self._iota_view(base, shape=shape, strides=strides, offset=offset)
        if is_position_mask(self.nodes, base) and base.shape != shape:
            inner = self.view(base.inputs[0], shape=shape, strides=strides, offset=offset)
            return self.binary(base.function, inner, base.inputs[1], base.dtype)
        if self._is_cast(base):
            inner = self.view(
                base.inputs[0], shape=shape, strides=strides, offset=offset, is_moved=is_moved
            )
            return self.unary("copy", inner, base.dtype)
        if shape == base.shape and offset == 0 and not (is_moved or self.keeps_views):
            wanted = contiguous_strides(shape)
            if all(size == 1 or a == b for size, a, b in zip(shape, strides, wanted, strict=True)):
                return source
        return self.add(
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
        return self.add(op=Op.IOTA, shape=shape, dtype=dtype, strides=steps, value=float(start))

    def _is_cast(self, node: Node) -> bool:
        """Whether a node stores the same elements in the same order in another dtype."""
        if node.op is not Op.UNARY or node.function != "copy":
            return False
        source = self.nodes[node.inputs[0]]
        return source.op is not Op.VIEW and source.dtype is not node.dtype

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
        return self.add(
            op=Op.PARTS, shape=shape, dtype=dtype, inputs=tuple(own), places=tuple(places)
        )

    def unary(self, function: str, source: int, dtype: DType | None = None) -> int:
        """One function of one value."""
        node = self.nodes[source]
        return self.add(
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
        return self.add(
            op=Op.BINARY,
            shape=broadcast_shapes(a.shape, b.shape),
            dtype=dtype,
            inputs=(first, second),
            function=function,
        )

    def where(self, condition: int, first: int, second: int) -> int:
        """`first` where the condition holds, else `second`."""
        shapes = [self.nodes[i].shape for i in (condition, first, second)]
        return self.add(
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
        num_last = sum(1 for i, a in enumerate(reversed(wanted)) if a == rank - 1 - i)
        if 0 < num_last < len(wanted):
            # The last axes row by row, then what is left of the others.
            rows = self.reduce(function, source, wanted[-num_last:], keepdims=True)
            rest = self.reduce(function, rows, wanted[:-num_last], keepdims=True)
            if keepdims:
                return rest
            return self._reshape(self.base_of(rest), tuple(node.shape[axis] for axis in kept))
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
        return self.add(
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
            is_moved=node.op is not Op.VIEW and list(order) != sorted(order),
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
        return self.add(
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
        shape = (*lead, a.shape[-2], b.shape[-1])
        return self.add(op=Op.MATMUL, shape=shape, dtype=dtype, inputs=(first, second))

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

    def windowed(
        self, op: Op, function: str, inputs: Sequence[int], shape: Shape, window: Window
    ) -> int:
        """A CONVOLUTION or POOL over [images, channels, ...]."""
        return self.add(
            op=op,
            function=function,
            inputs=tuple(inputs),
            shape=shape,
            dtype=self.nodes[inputs[0]].dtype,
            window=window,
        )

    def narrow(self, node_id: int) -> int:
        """What was cast to float32 from a shorter float, if it was."""
        found = self._narrow(node_id)
        return node_id if found is None else found

    def pick(self, function: str, inputs: Sequence[int], shape: Shape, dtype: DType) -> int:
        """A PICK of operands that each lie row by row from their first element on."""
        return self.add(
            op=Op.PICK, function=function, inputs=tuple(inputs), shape=shape, dtype=dtype
        )

    def transpose(self, source: int) -> int:
        """A view stored row by row through the Tensor Engine."""
        node = self.nodes[source]
        return self.add(op=Op.TRANSPOSE, shape=node.shape, dtype=node.dtype, inputs=(source,))

    def cast(self, source: int, dtype: DType) -> int:
        """The same value stored in another dtype."""
        node = self.nodes[source]
        if node.dtype is dtype:
            return source
        if node.op is Op.CONST:
            return self.const(node.value, node.shape, dtype)
        if node.op is Op.PARTS:
            made = [self.nodes[i].inputs[0] for i in node.inputs]
            return self.parts(node.shape, dtype, made, node.places)
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
