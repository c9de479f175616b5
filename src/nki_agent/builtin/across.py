"""Values that are only read across are made that way: w^T x^T in place of x w, turned.

Law: a transpose of a product, or of elementwise nodes on products, is made by the product itself,
whose operands the Tensor Engine takes in either order; nothing is stored to be turned. Nodes are
rewritten only where nobody reads them the other way, at every shape set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nki_agent.builtin.capture import Captured
from nki_agent.builtin.graph import (
    ELEMENTWISE,
    Graph,
    GraphBuilder,
    Node,
    Op,
    Shape,
    contiguous_strides,
)
from nki_agent.builtin.pruning import prune

MATRIX_RANK = 2
ROWS_MIN = 128
"""Rows of a batch from which on each may have a product of its own."""
SLICES_MAX = 2
"""Slices of the columns of a product that may become products of their own."""
PASSES_MAX = 64
Users = Mapping[int, Sequence[int]]


def make_across(captured: Captured) -> Captured:
    """The same task with such values made across."""
    for _ in range(PASSES_MAX):
        users = [graph.users() for graph in captured.graphs]
        found = _first(captured, users)
        if found is None:
            break
        kind, node_id = found
        pairs = zip(captured.graphs, users, strict=True)
        graphs = tuple(kind(graph, graph[node_id], known).rewrite() for graph, known in pairs)
        captured = replace(captured, graphs=graphs)
    return captured


def _first(
    captured: Captured, users: Sequence[Users]
) -> tuple[type[_Transpose | _Slice | _Operand], int] | None:
    """The next value to make across, and what it is."""
    graphs = list(zip(captured.graphs, users, strict=True))
    if all(node.op is not Op.TRANSPOSE for node in captured.graph.nodes):
        return None
    largest, known = max(graphs, key=lambda pair: sum(n.num_elems for n in pair[0].nodes))
    for node in captured.graph.nodes:
        for kind in (_Transpose, _Slice, _Operand):
            fits = all(kind(graph, graph[node.id], own).fits() for graph, own in graphs)
            if fits and kind(largest, largest[node.id], known).gains():
                return kind, node.id
    return None


def _swapped(sizes: Shape) -> Shape:
    """The last two exchanged."""
    return (*sizes[:-2], sizes[-1], sizes[-2])


def _strides_of(node: Node) -> Shape:
    return node.strides if node.op is Op.VIEW else contiguous_strides(node.shape)


def _walk(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """An order of elements: axes that run on in one another are one."""
    found: list[tuple[int, int]] = []
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if found and found[-1][1] == size * stride:
            found[-1] = (found[-1][0] * size, stride)
        else:
            found.append((size, stride))
    return found


def _is_swap(view: Node, base: Node) -> bool:
    """Whether a view walks the last two axes of a value in the other order."""
    if view.op is not Op.VIEW or len(base.shape) < MATRIX_RANK or view.offset:
        return False
    across = _swapped(base.shape), _swapped(contiguous_strides(base.shape))
    return _walk(view.shape, view.strides) == _walk(*across)


def _lies_across(graph: Graph, transpose: Node) -> bool:
    """Whether what it turns lies row by row the other way."""
    view = graph[transpose.inputs[0]]
    wanted = contiguous_strides(_swapped(view.shape))
    is_whole = graph.base(view.id).num_elems == view.num_elems and not view.offset
    return is_whole and _walk(_swapped(view.shape), _swapped(_strides_of(view))) == _walk(
        _swapped(view.shape), wanted
    )


@dataclass(slots=True)
class _Turn:
    """One value of a graph, and all that must be made across with it."""

    graph: Graph
    node: Node
    users: Users
    """Readers of each node of the graph; a result has one below 0."""
    _turned: dict[int, None] = field(default_factory=dict)
    """Products and elementwise nodes that are made across."""
    _slices: dict[int, None] = field(default_factory=dict)
    """Views of columns of products, which become products of their own."""
    _crossed: int = 0
    """Transposes that are read the other way, and needed no more."""

    def _collect(self, node_id: int) -> bool:
        """Note what is made across for one value; False if it cannot be."""
        node = self.graph[node_id]
        if node_id in self._turned or node_id in self._slices:
            return True
        if node.op is Op.CONST:
            return True
        if self._is_shared(node):
            return self.graph.base(node_id).op is not Op.IOTA
        if node.loop or len(node.shape) < MATRIX_RANK:
            return False
        match node.op:
            case Op.MATMUL:
                self._turned[node_id] = None
                return True
            case Op.VIEW if self.graph.base(node_id).op is Op.MATMUL:
                self._slices[node_id] = None
                return self._is_slice(node)
            case Op.VIEW:
                whole = self.graph.base(node_id)
                same = whole.shape == node.shape and not node.offset
                is_same = same and node.strides == contiguous_strides(node.shape)
                return is_same and whole.op is Op.TRANSPOSE and self._collect(whole.id)
            case Op.TRANSPOSE:
                self._crossed += 1
                return _lies_across(self.graph, node)
            case _ if node.op in ELEMENTWISE:
                self._turned[node_id] = None
                return all(self._collect(source) for source in node.inputs)
            case _:
                return False

    @staticmethod
    def _is_shared(node: Node) -> bool:
        """Whether it is the same along one of the last two axes, so that a view turns it."""
        return len(node.shape) < MATRIX_RANK or 1 in node.shape[-2:]

    def _is_slice(self, view: Node) -> bool:
        """Whether it is some columns of all rows of a product."""
        base = self.graph.base(view.id)
        if base.op is not Op.MATMUL or base.loop or base.id in self.graph.outputs:
            return False
        width, end = base.shape[-1], view.offset + view.shape[-1]
        same_rows = view.shape[:-1] == base.shape[:-1]
        return same_rows and view.strides == contiguous_strides(base.shape) and end <= width

    def _is_closed(self, allowed: set[int]) -> bool:
        """Whether nobody else reads what is made across."""
        users = self.users
        inside = {*self._turned, *allowed}
        if set(self._turned) & {self.graph.base(o).id for o in self.graph.outputs}:
            return False
        if any(not set(users[n]) <= inside for n in (*self._turned, *self._slices)):
            return False
        for view in self._slices:
            base = self.graph.base(view).id
            parts = set(users[base])
            if len(parts) > SLICES_MAX or not all(self._is_slice(self.graph[p]) for p in parts):
                return False
            if sum(self.graph[p].shape[-1] for p in parts) > self.graph[base].shape[-1]:
                return False
        return True

    def _long_batches(self) -> bool:
        """Whether all products have one batch, or long ones."""
        made = [self.graph[n] for n in (*self._turned, *self._slices)]
        products = [n for n in made if n.op in (Op.MATMUL, Op.VIEW)]
        return all(
            n.shape[-2] >= ROWS_MIN or all(size == 1 for size in n.shape[:-2]) for n in products
        )

    def _straight(self) -> set[int]:
        """The other slices of products that are taken apart."""
        users = self.users
        bases = {self.graph.base(view).id for view in self._slices}
        return {part for base in bases for part in users[base] if part not in self._slices}

    # -- rewriting --------------------------------------------------------------------------------
    def _copy(self, put: Callable[[_Writer, Node], int | None]) -> Graph:
        """The graph anew; `put` writes what becomes of a node, or None where it stays."""
        writer = _Writer(self.graph, self._turned, self._slices, self._straight())
        for node in self.graph.nodes:
            writer.builder.origin = node.origin
            made = put(writer, node)
            if made is None:
                made = writer.repeat(node)
            writer.new[node.id] = made
        outputs = tuple(writer.new[o] for o in self.graph.outputs)
        return prune(Graph(tuple(writer.builder.nodes), self.graph.arguments, outputs))


@dataclass(slots=True)
class _Transpose(_Turn):
    """A transpose of what can be made across."""

    def fits(self) -> bool:
        """Whether it can be replaced."""
        if self.node.op is not Op.TRANSPOSE:
            return False
        view = self.graph[self.node.inputs[0]]
        base = self.graph.base(view.id)
        if base.op not in {*ELEMENTWISE, Op.MATMUL}:
            return False
        if len(base.shape) == len(self.node.shape) and _swapped(base.shape) != self.node.shape:
            return False
        if not _is_swap(view, base) or not self._collect(base.id):
            return False
        products = [n for n in self._turned if self.graph[n].op is Op.MATMUL]
        if not (self._crossed or products or self._slices):
            return False
        return self._is_closed({view.id}) and self.users[view.id] == [self.node.id]

    def gains(self) -> bool:
        """Whether it is worth it at the largest sizes."""
        return self.fits() and self._long_batches()

    def rewrite(self) -> Graph:
        """The graph without the transpose."""
        assert self.fits()
        base = self.graph.base(self.node.inputs[0])

        def put(writer: _Writer, node: Node) -> int | None:
            if node.id != self.node.id:
                return None
            across = writer.across(base.id)
            if len(node.shape) == len(base.shape):
                return across
            return writer.view(across, node.shape, contiguous_strides(node.shape))

        return self._copy(put)


@dataclass(slots=True)
class _Slice(_Turn):
    """A transpose of some columns of a product, all of whose readers take some columns."""

    def fits(self) -> bool:
        """Whether the product can be made across, in parts or whole."""
        if self.node.op is not Op.TRANSPOSE:
            return False
        view = self.graph[self.node.inputs[0]]
        base = self.graph.base(view.id)
        if base.op is not Op.MATMUL or base.loop or base.id in self.graph.outputs:
            return False
        if not self._is_across(view):
            return False
        users = self.users
        parts = [self.graph[p] for p in users[base.id]]
        straight = [p for p in parts if self._is_slice(p)]
        across = [p for p in parts if self._is_across(p)]
        if len(straight) + len(across) != len(parts):
            return False
        readers = [u for p in across for u in users[p.id]]
        if any(u < 0 or self.graph[u].op not in (Op.TRANSPOSE, Op.MATMUL) for u in readers):
            return False
        return self._is_split or all(_feeds(self.graph, users[p.id], p.id) for p in straight)

    @property
    def _is_split(self) -> bool:
        """Whether each part is a product of its own."""
        base = self.graph.base(self.node.inputs[0])
        parts = self.users[base.id]
        widths = [self.graph[p].num_elems for p in parts]
        turned = all(
            self.graph[u].op is Op.TRANSPOSE
            for p in parts
            if self._is_across(self.graph[p])
            for u in self.users[p]
        )
        return turned and len(parts) <= SLICES_MAX and sum(widths) <= base.num_elems

    def _is_across(self, view: Node) -> bool:
        """Whether a view walks the rows of some columns one column after the other."""
        if view.op is not Op.VIEW:
            return False
        base = self.graph.base(view.id)
        *batch, rows, cols = base.shape
        steps = contiguous_strides(base.shape)
        width = view.num_elems // max(1, math.prod(batch) * rows)
        wanted = _walk((*batch, width, rows), (*steps[:-2], 1, cols))
        return view.offset + width <= cols and _walk(view.shape, view.strides) == wanted

    def gains(self) -> bool:
        """Whether it is worth it at the largest sizes."""
        base = self.graph.base(self.node.inputs[0])
        return base.shape[-2] >= ROWS_MIN or all(size == 1 for size in base.shape[:-2])

    def rewrite(self) -> Graph:
        """The graph with the transpose made by the product."""
        return self._copy(self._put_part if self._is_split else self._put_rows)

    def _put_part(self, writer: _Writer, node: Node) -> int | None:
        view = self.graph[self.node.inputs[0]]
        base = self.graph.base(view.id)
        if node.op is Op.VIEW and node.inputs[0] == base.id and self._is_slice(node):
            return writer.columns(node)
        if node.id != self.node.id:
            return None
        width = node.num_elems // (base.num_elems // base.shape[-1])
        part = replace(
            view, shape=(*base.shape[:-1], width), strides=contiguous_strides(base.shape)
        )
        across = writer.product(base, part)
        if len(node.shape) == len(base.shape):
            return across
        return writer.view(across, node.shape, contiguous_strides(node.shape))

    def _put_rows(self, writer: _Writer, node: Node) -> int | None:
        """All columns are rows of one product."""
        base = self.graph.base(self.node.inputs[0])
        rows, cols = base.shape[-2:]
        if node.id == base.id:
            return writer.product(base, base)
        if node.op is Op.TRANSPOSE and self.graph.base(node.inputs[0]).id == base.id:
            view = self.graph[node.inputs[0]]
        elif node.op is Op.VIEW and node.inputs[0] == base.id:
            view = node
        else:
            return None
        strides = tuple(_stride_across(step, rows, cols) for step in view.strides)
        return writer.view(writer.new[base.id], view.shape, strides, view.offset * rows)


def _stride_across(step: int, rows: int, cols: int) -> int:
    """A stride of a product in the product that is made across: whole batches stay."""
    if step % (rows * cols) == 0:
        return step
    return step // cols if step % cols == 0 else step * rows


def _feeds(graph: Graph, users: Sequence[int], node_id: int) -> bool:
    """Whether all of some readers are products with the value as rows."""
    readers = [graph[u] for u in users if u >= 0]
    return (
        bool(users)
        and len(readers) == len(users)
        and all(
            r.op is Op.MATMUL and not r.loop and r.inputs[0] == node_id != r.inputs[1]
            for r in readers
        )
    )


@dataclass(slots=True)
class _Operand(_Turn):
    """An elementwise value that products read as their rows, made of transposes."""

    def fits(self) -> bool:
        """Whether it can be replaced."""
        users = self.users
        if self.node.op not in ELEMENTWISE or not _feeds(
            self.graph, users[self.node.id], self.node.id
        ):
            return False
        if not self._collect(self.node.id) or not self._crossed:
            return False
        readers = {
            u
            for n in self._turned
            for u in users[n]
            if u >= 0 and (_feeds(self.graph, [u], n) or self._is_back(self.graph[u]))
        }
        return self._is_closed(readers)

    def _is_back(self, view: Node) -> bool:
        """Whether a view reads across what will lie that way."""
        base = self.graph.base(view.id)
        return _is_swap(view, base) and view.shape == _swapped(base.shape)

    def gains(self) -> bool:
        """Whether it is worth it at the largest sizes."""
        return self.fits() and self._long_batches()

    def rewrite(self) -> Graph:
        """The graph with the value made across, and seen as before by the products."""
        assert self.fits()

        def put(writer: _Writer, node: Node) -> int | None:
            if node.op is Op.VIEW and node.inputs[0] in self._turned and self._is_back(node):
                return writer.across(node.inputs[0])
            if node.id not in self._turned or node.op is Op.MATMUL:
                return None
            across = writer.across(node.id)
            made = writer.builder.nodes[across]
            return writer.view(across, node.shape, _swapped(contiguous_strides(made.shape)))

        return self._copy(put)


@dataclass(slots=True)
class _Writer:
    """Writes a graph anew."""

    graph: Graph
    turned: dict[int, None]
    slices: dict[int, None]
    straight: set[int]
    builder: GraphBuilder = field(init=False)
    new: dict[int, int] = field(default_factory=dict)
    _across: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.builder = GraphBuilder(arguments=list(self.graph.arguments))

    def repeat(self, node: Node) -> int:
        """The same node over what its inputs became."""
        inputs = [self.new[i] for i in node.inputs]
        if node.op is Op.VIEW and self.builder.nodes[inputs[0]].op is Op.VIEW:
            # The view that stands for a transpose walks its elements in their order.
            inputs = list(self.builder.nodes[inputs[0]].inputs)
        if node.id in self.straight:
            return self.columns(node)
        return self.builder.repeat(node, inputs)

    def view(self, source: int, shape: Shape, strides: Shape, offset: int = 0) -> int:
        """A view, even where it is the identity at these sizes."""
        base = self.builder.nodes[source]
        return self.builder.add(
            op=Op.VIEW, shape=shape, dtype=base.dtype, inputs=(source,), strides=strides,
            offset=offset,
        )  # fmt: skip

    def across(self, node_id: int) -> int:
        """The value with its last two axes exchanged."""
        if node_id not in self._across:
            self._across[node_id] = self._make(self.graph[node_id])
        return self._across[node_id]

    def _make(self, node: Node) -> int:
        self.builder.origin = node.origin
        if node.id in self.slices:
            return self.product(self.graph.base(node.id), node)
        if node.id in self.turned and node.op is Op.MATMUL:
            return self.product(node, node)
        if node.id in self.turned:
            inputs = [self.across(source) for source in node.inputs]
            return self.builder.repeat(replace(node, shape=_swapped(node.shape)), inputs)
        if node.op is Op.CONST:
            shape = node.shape if len(node.shape) < MATRIX_RANK else _swapped(node.shape)
            if len(node.shape) == 1:
                shape = (*node.shape, 1)
            return self.builder.const(node.value, shape, node.dtype)
        if node.op is Op.TRANSPOSE:
            shape = _swapped(node.shape)
            base = self.new[self.graph.base(node.inputs[0]).id]
            is_same = len(self.graph.base(node.inputs[0]).shape) == len(shape)
            return base if is_same else self.view(base, shape, contiguous_strides(shape))
        if self.graph.base(node.id).op is Op.TRANSPOSE and 1 not in node.shape[-2:]:
            return self.across(self.graph.base(node.id).id)
        return self._flip(node, node.shape, _strides_of(node), node.offset)

    def _flip(self, node: Node, shape: Shape, strides: Shape, offset: int) -> int:
        """A view of the value's elements with the last two axes exchanged."""
        if not shape:
            return self.new[node.id]
        if len(shape) == 1:
            shape, strides = (1, *shape), (0, *strides)
        base = self.new[self.graph.base(node.id).id]
        return self.view(base, _swapped(shape), _swapped(strides), offset)

    def columns(self, part: Node) -> int:
        """The product of these columns alone."""
        product = self.graph.base(part.id)
        self.builder.origin = product.origin
        rows, weights = (self.graph[i] for i in product.inputs)
        strides = _strides_of(weights)
        offset = (weights.offset if weights.op is Op.VIEW else 0) + part.offset * strides[-1]
        base = self.new[self.graph.base(weights.id).id]
        right = self.view(base, (*weights.shape[:-1], part.shape[-1]), strides, offset)
        return self.builder.add(
            op=Op.MATMUL, shape=part.shape, dtype=product.dtype, inputs=(self.new[rows.id], right)
        )

    def product(self, product: Node, part: Node) -> int:
        """w^T x^T of a product, or of some of its columns."""
        rows, weights = (self.graph[i] for i in product.inputs)
        self.builder.origin = product.origin
        start = part.offset if part.op is Op.VIEW else 0
        strides = _strides_of(weights)
        shape = (*weights.shape[:-1], part.shape[-1])
        offset = (weights.offset if weights.op is Op.VIEW else 0) + start * strides[-1]
        left = self._flip(weights, shape, strides, offset)
        right = self._flip(rows, rows.shape, _strides_of(rows), rows.offset)
        return self.builder.add(
            op=Op.MATMUL, shape=_swapped(part.shape), dtype=product.dtype, inputs=(left, right)
        )
