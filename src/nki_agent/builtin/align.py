"""Which axes the nodes of one stage share, and how each tensor in HBM runs along them.

Axes are counted from the right (-1 is the last), as broadcasting does. `align` gives the axis of
every dimension of every node, or None where the nodes do not share one iteration space;
`merge_axes` joins neighbouring axes that every tensor walks through in one stride.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nki_agent.builtin.graph import PRODUCTS, WINDOWED, Graph, Node, Op, contiguous_strides
from nki_agent.builtin.plan import Stored
from nki_agent.builtin.tile_steps import Size

Axes = tuple[int | None, ...]


@dataclass(slots=True)
class Alignment:
    """Sizes of the shared axes, the axes of each node's dimensions, and the reduced axes."""

    sizes: dict[int, int] = field(default_factory=dict)
    axes: dict[int, Axes] = field(default_factory=dict)
    reduced: set[frozenset[int]] = field(default_factory=set)

    @property
    def order(self) -> tuple[int, ...]:
        """The axes from the outermost to the innermost."""
        return tuple(sorted(self.sizes))


def align(graph: Graph, group: Sequence[int], *, seed: int | None = None) -> Alignment | None:
    """Align the nodes of a group; None if they do not share an iteration space.

    `seed` is a node (a product) whose dimensions are the axes; then none may be added.
    """
    found = Alignment()
    if seed is not None:
        shape = graph[seed].shape
        axes = tuple(range(-len(shape), 0))
        found.axes[seed] = axes
        found.sizes = dict(zip(axes, shape, strict=True))
    for node_id in group:
        if node_id == seed:
            continue
        if not _place(graph, graph[node_id], found):
            return None
    if seed is not None and (len(found.sizes) != len(graph[seed].shape) or found.reduced):
        return None
    return found


def share_axes(alignments: Sequence[Alignment]) -> None:
    """Give all alignments of a group the same axes: one that is missing has the size 1."""
    axes = {axis for found in alignments for axis in found.sizes}
    for found in alignments:
        for axis in axes:
            found.sizes.setdefault(axis, 1)
    # A dimension of one element shows its axis at another shape set.
    for node_id in alignments[0].axes:
        known = zip(*(found.axes[node_id] for found in alignments), strict=True)
        shared = tuple(next((a for a in dim if a is not None), None) for dim in known)
        for found in alignments:
            found.axes[node_id] = shared


def _place(graph: Graph, node: Node, found: Alignment) -> bool:
    """Give a node's dimensions their axes; False if it does not fit."""
    shape = graph[node.inputs[0]].shape if node.op in (Op.REDUCE, Op.LANES) else node.shape
    axes = _axes_of_inputs(graph, node, len(shape), found)
    if axes is None or not _take_sizes(shape, axes, found):
        return False
    if node.op is Op.REDUCE:
        gone = frozenset(a for d in node.axes if (a := axes[d]) is not None)
        found.reduced.add(gone)
        axes = [None if dim in node.axes else axis for dim, axis in enumerate(axes)]
    if node.op is Op.SCAN and axes[-1] is not None:
        # Its rows stay whole, as those that are reduced do.
        found.reduced.add(frozenset({axes[-1]}))
    found.axes[node.id] = (None,) if node.op is Op.LANES else tuple(axes)
    return True


def _axes_of_inputs(
    graph: Graph, node: Node, rank: int, found: Alignment
) -> list[int | None] | None:
    """Axes that follow from values of the group; None where two values disagree."""
    axes: list[int | None] = [None] * rank
    for source in node.inputs:
        inner = inner_axes(graph, source, found)
        if inner is None:
            if inner_base(graph, source, found) is not None:
                return None
            continue
        for dim, axis in enumerate(inner, start=rank - len(inner)):
            if axis is not None and axes[dim] not in (None, axis):
                return None
            axes[dim] = axis if axis is not None else axes[dim]
    return axes


def _take_sizes(shape: Sequence[int], axes: list[int | None], found: Alignment) -> bool:
    """Fill the open axes from the right and note all sizes; False if one differs."""
    for dim, size in enumerate(shape):
        if axes[dim] is None and size != 1:
            axes[dim] = dim - len(shape)
        axis = axes[dim]
        if axis is None:
            continue
        if found.sizes.setdefault(axis, size) not in (size, 1):
            return False
        if size != 1:
            found.sizes[axis] = size
    known = [axis for axis in axes if axis is not None]
    for missing in range(min(known, default=0), 0):
        found.sizes.setdefault(missing, 1)
    return known == sorted(set(known))


def inner_base(graph: Graph, source: int, found: Alignment) -> int | None:
    """The node of this group that `source` is or views; None if it comes from elsewhere."""
    base = graph.base(source).id
    return base if base in found.axes else None


def inner_axes(graph: Graph, source: int, found: Alignment) -> Axes | None:
    """The axes of a value of the group, seen through a view that only drops or adds 1s."""
    base_id = inner_base(graph, source, found)
    if base_id is None:
        return None
    node, base = graph[source], graph[base_id]
    if node.id == base.id:
        return found.axes[base_id]
    if node.offset:
        return None
    steps = contiguous_strides(base.shape)
    by_stride = {
        (step, size): axis
        for step, size, axis in zip(steps, base.shape, found.axes[base_id], strict=True)
        if size != 1
    }
    result: list[int | None] = []
    used = 0
    for size, stride in zip(node.shape, node.strides, strict=True):
        if size == 1 or stride == 0:
            result.append(None)
        elif (stride, size) in by_stride:
            result.append(by_stride[stride, size])
            used += 1
        else:
            return None
    return tuple(result) if used == len(by_stride) else None


@dataclass(frozen=True, slots=True)
class Walk:
    """How one tensor in HBM runs along the axes: strides in elements by axis, and an offset."""

    strides: dict[int, int]
    offset: int


def walk_of(graph: Graph, source: int, axes: Axes, found: Alignment) -> Walk:
    """Strides of an outside operand whose last dimensions lie along `axes`, right-aligned."""
    node = graph[source]
    has_own = node.op in (Op.VIEW, Op.IOTA)
    strides = node.strides if has_own else contiguous_strides(node.shape)
    result: dict[int, int] = {}
    for dim, axis in enumerate(axes[len(axes) - len(node.shape) :]):
        if axis is None:
            continue
        # An axis that no operand walks along has the size 1.
        broadcast = node.shape[dim] == 1 and found.sizes.get(axis, 1) != 1
        result[axis] = 0 if broadcast else strides[dim]
    return Walk(result, int(node.value) if node.op is Op.IOTA else node.offset)


def walk_of_result(
    graph: Graph, node_id: int, found: Alignment, stored: Stored, index: int
) -> Walk:
    """Strides of a value that a stage writes, in its own tensor or in a region of a larger one."""
    strides, offset = stored.layout(graph[node_id].shape, index)
    pairs = zip(found.axes[node_id], strides, strict=True)
    return Walk({axis: s for axis, s in pairs if axis is not None}, offset)


def outside_operands(
    graph: Graph, group: Sequence[int], found: Alignment
) -> Iterator[tuple[int, Axes]]:
    """(operand, axes of its reader's dimensions) for each value from outside the group."""
    for node_id in group:
        node = graph[node_id]
        if node.op in PRODUCTS:
            continue
        for source in node.inputs:
            if graph[source].op is Op.CONST or inner_base(graph, source, found) is not None:
                continue
            axes = found.axes[node_id]
            if node.op is Op.REDUCE:
                axes = _axes_before(graph, node, found)
            elif node.op is Op.LANES:
                axes = (-1,)
            yield source, axes


def _axes_before(graph: Graph, node: Node, found: Alignment) -> Axes:
    """A reduction's axes before it reduced."""
    rank = len(graph[node.inputs[0]].shape)
    kept = found.axes[node.id]
    return tuple(dim - rank if dim in node.axes else kept[dim] for dim in range(rank))


def fits_window(graph: Graph, group: Sequence[int], found: Alignment, seed: int) -> bool:
    """Whether a stage that begins with a window can take these nodes.

    Its tiles are channels by pixels: an operand has one value for each channel, or walks through
    all pixels of an image in one stride. A pool's channels lie together with its images, so that it
    takes no operand at all.
    """
    node = graph[seed]
    if node.op not in WINDOWED:
        return True
    operands = list(outside_operands(graph, group, found))
    if node.op is Op.POOL:
        full = [graph[n].num_elems == node.num_elems for n in group]
        return not operands and all(full)
    pixels = [axis for axis in found.order if axis > 1 - len(node.shape)]
    for source, axes in operands:
        walk = walk_of(graph, source, axes[len(axes) - len(graph[source].shape) :], found)
        moving = [a for a in pixels if walk.strides.get(a, 0)]
        if not moving:
            continue
        if any(found.sizes[a] != 1 for a in set(pixels) - set(moving)):
            return False
        if not walk.strides.get(1 - len(node.shape), 0) and node.shape[1] != 1:
            return False
        sizes = ({a: found.sizes[a] for a in pixels},)
        if len(merge_axes(pixels, sizes, ((walk,),), fences=frozenset())) > 1:
            return False
    return True


def varying(alignments: Sequence[Alignment], node_id: int) -> frozenset[int]:
    """The axes along which a node's value varies at any shape set."""
    return frozenset(a for found in alignments for a in found.axes[node_id] if a is not None)


def moving_axes(walks: Sequence[Walk], sizes: Sequence[Mapping[int, int]]) -> frozenset[int]:
    """The axes along which a tensor is read at any shape set.

    Along one element nothing moves, whatever the stride, unless it is one at every shape set.
    """
    moving = [(a, n) for w, size in zip(walks, sizes, strict=True) for a, n in _moves(w, size)]
    long = {axis for size in sizes for axis, count in size.items() if count != 1}
    return frozenset(axis for axis, count in moving if count != 1 or axis not in long)


def _moves(walk: Walk, size: Mapping[int, int]) -> list[tuple[int, int]]:
    return [(axis, size.get(axis, 1)) for axis, stride in walk.strides.items() if stride]


def merge_axes(
    order: Sequence[int],
    sizes: Sequence[dict[int, int]],
    walks: Sequence[Sequence[Walk]],
    *,
    fences: frozenset[int],
) -> list[tuple[int, ...]]:
    """Group neighbouring axes that every walk crosses in one stride, at every shape set.

    `sizes[s]` and `walks[s]` belong to shape set s. No group reaches across a fence: an axis in
    `fences` starts a new group.
    """
    groups: list[list[int]] = []
    for axis in order:
        if groups and axis not in fences and joins(groups[-1], axis, sizes, walks):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return [tuple(group) for group in groups]


def joins(
    group: Sequence[int],
    right: int,
    sizes: Sequence[dict[int, int]],
    walks: Sequence[Sequence[Walk]],
) -> bool:
    """Whether each walk goes on along `right` where it left the group's last moving axis."""
    for size, walk_set in zip(sizes, walks, strict=True):
        moving = [axis for axis in group if size[axis] != 1]
        if size[right] == 1 or not moving:
            # An axis of one element may have any stride.
            continue
        for walk in walk_set:
            inner = walk.strides.get(right, 0)
            if walk.strides.get(moving[-1], 0) != inner * size[right]:
                return False
    return True


def group_stride(
    group: Sequence[int], walks: Sequence[Walk], sizes: Sequence[dict[int, int]]
) -> Size:
    """A merged group's stride for one tensor at each shape set: its innermost moving axis's.

    Where the whole group is one element, any stride is right; it takes the one that the layout
    gives it if the tensor moves along the group at another shape set, so that one expression fits.
    """
    result: list[int | None] = []
    for walk, size in zip(walks, sizes, strict=True):
        moving = [axis for axis in group if size[axis] != 1]
        result.append(walk.strides.get(moving[-1], 0) if moving else None)
    is_moving = any(result)
    return tuple(
        stride
        if stride is not None
        else (walk.strides.get(group[-1], 0) if is_moving and group else 0)
        for stride, walk in zip(result, walks, strict=True)
    )


def group_size(group: Sequence[int], sizes: Sequence[dict[int, int]]) -> Size:
    """Elements of a merged group at each shape set."""
    result = []
    for size in sizes:
        total = 1
        for axis in group:
            total *= size[axis]
        result.append(total)
    return tuple(result)
