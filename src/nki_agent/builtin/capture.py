"""A task as one graph for each of its shape sets.

Law: the graphs of a task differ in sizes and in numbers made from sizes, and in nothing else; a
task whose graph changes with its shapes is refused. Where the file declares its sizes, the
reference is also captured at some that nobody asked for (probes.py): what a kernel says of a size
must hold there too.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nki_agent.builtin.capture_numpy import capture_numpy
from nki_agent.builtin.graph import (
    ELEMENTWISE,
    ROWWISE,
    SOURCES,
    WINDOWED,
    Graph,
    GraphBuilder,
    Node,
    Op,
    UnsupportedError,
    contiguous_strides,
    is_position_mask,
)
from nki_agent.builtin.log_sums import simplify_log_sums
from nki_agent.builtin.matching import find_folds
from nki_agent.builtin.probes import make_probes
from nki_agent.builtin.pruning import prune
from nki_agent.builtin.rules import Agreed
from nki_agent.builtin.sinking import find_sinks, sink
from nki_agent.builtin.softmaxes import join_scores
from nki_agent.sandbox.task_host import UntrustedReference
from nki_agent.task.numpy_reference import NumpyReference
from nki_agent.task.task import Form, ShapeSet, Task

if TYPE_CHECKING:
    from nki_agent.task.torch_reference import TorchReference


@dataclass(frozen=True, slots=True)
class Captured:
    """The same graph at each shape set; `graphs[0]` is the one that decisions are made on."""

    graphs: tuple[Graph, ...]
    shape_sets: tuple[ShapeSet, ...] = ()

    @property
    def graph(self) -> Graph:
        """The graph at the dev shapes."""
        return self.graphs[0]

    def numbers(self) -> dict[int, tuple[float, ...]]:
        """The value of each CONST node at each shape set."""
        return {
            node.id: tuple(g[node.id].value for g in self.graphs)
            for node in self.graph.nodes
            if node.op is Op.CONST
        }

    def shape(self, node_id: int) -> tuple[tuple[int, ...], ...]:
        """The shape of a node: for each axis its size at each shape set."""
        shapes = [g[node_id].shape for g in self.graphs]
        return tuple(zip(*shapes, strict=True)) if shapes[0] else ()


CHANGING = "its operators change with the shapes"
"""Why graphs at two shape sets are not the same kernel."""


def capture_task(task: Task) -> Captured:
    """Capture the reference at every shape set.

    Raises: UnsupportedError: an operator, a dtype or a form that is not covered; shapes that
    change the graph.
    """
    if isinstance(task.dev.reference, UntrustedReference):
        raise UnsupportedError(
            task.id,
            "it is loaded in a process of its own, and the reference cannot be read from here",
            hint="load a file that you trust without a sandbox, or use another `--model`",
        )
    if task.updates and task.form is Form.NUMPY_FUNCTION:
        raise UnsupportedError(
            task.updates[0],
            "it is updated in place, which is not covered for NumPy",
            hint="write the reference with PyTorch, or use another `--model`",
        )
    try:
        return _capture(task)
    except UnsupportedError as error:
        if error.why != CHANGING:
            raise
        # Where an axis has one element at some sizes, a view of it is none there.
        with contextlib.suppress(UnsupportedError):
            return _capture(task, keeps_views=True)
        raise


def _capture(task: Task, *, keeps_views: bool = False) -> Captured:
    agreed = Agreed()

    def capture(shapes: ShapeSet) -> Graph:
        own = Agreed(before=agreed.made)
        graph = capture_shapes(shapes, task.form, agreed=own, keeps_views=keeps_views)
        agreed.made = agreed.made or own.made
        return graph

    # The perf shapes come first, so that what is best there is done at all of them.
    graphs = [capture(shapes) for shapes in reversed(task.shape_sets)][::-1]
    captured = make_captured(graphs)
    shape_sets = list(task.shape_sets)
    for probe in make_probes(task):
        try:
            more = [*graphs, capture(probe)]
            captured = make_captured(more)
        except UnsupportedError:
            # Sizes at which the reference does something else: a split that leaves nothing.
            continue
        graphs = more
        shape_sets.append(probe)
    return replace(captured, shape_sets=tuple(shape_sets))


def capture_shapes(
    shapes: ShapeSet, form: Form, *, agreed: Agreed, keeps_views: bool = False
) -> Graph:
    """Capture the reference at one shape set, with views that change nothing or without."""
    match form:
        case Form.MODULE | Form.TORCH_FUNCTION:
            from nki_agent.builtin import capture_torch  # noqa: PLC0415 - PyTorch is optional

            reference: TorchReference = shapes.reference  # type: ignore[assignment]
            return capture_torch.capture_torch(
                shapes, reference, agreed=agreed, keeps_views=keeps_views
            )
        case Form.NUMPY_FUNCTION:
            assert isinstance(shapes.reference, NumpyReference)
            return capture_numpy(shapes, shapes.reference)


def make_captured(graphs: list[Graph]) -> Captured:
    """Check that the graphs are the same but for sizes, and prepare them for planning."""
    apart = sink_all(
        [take_apart(cast_early(join_scores(simplify_log_sums(graph)))) for graph in graphs]
    )
    ready = [own_masks(store_transposed(graph)) for graph in apart]
    first = ready[0]
    for other in ready[1:]:
        pairs = zip(first.nodes, other.nodes, strict=False)
        same = len(first.nodes) == len(other.nodes) and first.outputs == other.outputs
        if not same or any(a.structure != b.structure for a, b in pairs):
            raise UnsupportedError("the reference", CHANGING)
    return Captured(tuple(ready))


def cast_early(graph: Graph) -> Graph:
    """Cast what is only reshaped before the cast: so the stage that makes it can store it so."""
    builder = GraphBuilder(arguments=list(graph.arguments))
    users = graph.users()
    casts: dict[int, int] = {}
    new_id: dict[int, int] = {}
    for node in graph.nodes:
        builder.origin = node.origin
        base = _cast_whole(graph, node)
        if base is None or len(users[base.id]) > 1:
            # A view is of the cast itself, whose elements have the same order.
            known = new_id | casts if node.op is Op.VIEW else new_id
            new_id[node.id] = builder.repeat(node, [known[i] for i in node.inputs])
            continue
        cast = casts[node.id] = builder.unary("copy", new_id[base.id], node.dtype)
        # Added as it is: `view` would move the cast behind it again.
        new_id[node.id] = builder.add(
            op=Op.VIEW,
            shape=node.shape,
            dtype=node.dtype,
            inputs=(cast,),
            strides=contiguous_strides(node.shape),
        )
    outputs = tuple(new_id[o] for o in graph.outputs)
    return prune(Graph(tuple(builder.nodes), graph.arguments, outputs))


def _cast_whole(graph: Graph, node: Node) -> Node | None:
    """The elementwise node that a cast reads through a plain reshape."""
    if node.op is not Op.UNARY or node.function != "copy" or node.loop:
        return None
    view = graph[node.inputs[0]]
    base = graph.base(view.id)
    is_reshape = view.op is Op.VIEW and (
        view.offset == 0
        and view.shape != base.shape
        and view.strides == contiguous_strides(view.shape)
        and view.num_elems == base.num_elems
    )
    is_cast = base.op in ELEMENTWISE and base.dtype.is_float and node.dtype.is_float
    return base if is_cast and is_reshape and base.dtype is not node.dtype else None


def sink_all(graphs: list[Graph]) -> list[Graph]:
    """Make reductions where their operands lie, those for which it is so at every shape set."""
    if len({len(graph.nodes) for graph in graphs}) != 1:
        return graphs
    found = [find_sinks(graph) for graph in graphs]
    common = set.intersection(*({(s.reduction, s.nodes) for s in f.values()} for f in found))
    chosen = {reduction for reduction, _ in common}
    return [
        sink(graph, {r: s for r, s in own.items() if r in chosen})
        for graph, own in zip(graphs, found, strict=True)
    ]


def take_apart(graph: Graph) -> Graph:
    """Give every output a node of its own that is stored row by row."""
    builder = GraphBuilder(nodes=list(graph.nodes), arguments=list(graph.arguments))
    outputs: list[int] = []
    for output in graph.outputs:
        node = graph[output]
        base = graph.base(output)
        plain = node.op is not Op.VIEW or (
            node.offset == 0
            and node.strides == contiguous_strides(node.shape)
            and node.num_elems == base.num_elems
        )
        taken = {
            builder.nodes[o].inputs[0] if builder.nodes[o].op is Op.VIEW else o for o in outputs
        }
        if plain and base.op not in SOURCES and base.id not in taken:
            outputs.append(output)
            continue
        builder.origin = node.origin
        outputs.append(builder.unary("copy", output))
    return prune(Graph(tuple(builder.nodes), graph.arguments, tuple(outputs)))


def is_transposed(node: Node) -> bool:
    """Whether a VIEW walks its base across rows: an axis other than the last is contiguous."""
    if node.op is not Op.VIEW or node.shape[-1:] in ((), (1,)) or node.strides[-1] in (0, 1):
        return False
    return any(
        stride == 1 and size > 1
        for size, stride in zip(node.shape[:-1], node.strides[:-1], strict=True)
    )


def transpose_once(builder: GraphBuilder, source: int) -> int:
    """A view stored row by row; what repeats along an axis is stored once."""
    view = builder.nodes[source]
    if 0 not in view.strides or any(view.strides[axis] == 0 for axis in (-1,)):
        return builder.transpose(source)
    shape = tuple(
        1 if step == 0 else size for size, step in zip(view.shape, view.strides, strict=True)
    )
    if shape == view.shape or not is_transposed(replace(view, shape=shape)):
        return builder.transpose(source)
    once = builder.view(
        view.inputs[0], shape=shape, strides=view.strides, offset=view.offset, is_moved=True
    )
    stored = builder.transpose(once)
    steps = zip(shape, view.strides, contiguous_strides(shape), strict=True)
    strides = tuple(0 if step == 0 else own for _, step, own in steps)
    return builder.view(stored, shape=view.shape, strides=strides)


def store_transposed(graph: Graph) -> Graph:
    """Let the Tensor Engine turn what elementwise nodes would read across rows."""
    builder = GraphBuilder(arguments=list(graph.arguments))
    new_id: dict[int, int] = {}
    stored: dict[tuple[object, ...], int] = {}
    folded = find_folds(graph)
    for node in graph.nodes:
        builder.origin = node.origin
        sources = []
        turned = False
        if node.id in folded:
            fold = replace(node, op=Op.FOLD)
            new_id[node.id] = builder.repeat(fold, [new_id[i] for i in node.inputs])
            continue
        for source in node.inputs:
            if node.op in ROWWISE | {Op.SOFTMAX, *WINDOWED} and is_transposed(graph[source]):
                # Views that walk one value alike are turned once, whoever made them.
                view = _walk_of(builder.nodes[new_id[source]])
                if view not in stored:
                    builder.loop = graph.base(source).loop
                    stored[view] = transpose_once(builder, new_id[source])
                    builder.loop = 0
                sources.append(stored[view])
                turned = True
            else:
                sources.append(new_id[source])
        if node.op is Op.UNARY and node.function == "copy" and turned:
            builder.loop = node.loop
            new_id[node.id] = builder.cast(sources[0], node.dtype)
            builder.loop = 0
        else:
            new_id[node.id] = builder.repeat(node, sources)
    return prune(
        Graph(tuple(builder.nodes), graph.arguments, tuple(new_id[o] for o in graph.outputs))
    )


def _walk_of(view: Node) -> tuple[object, ...]:
    return view.inputs, view.shape, view.strides, view.offset, view.loop


def own_masks(graph: Graph) -> Graph:
    """Give each reader of a mask by position its own, which is never stored."""
    builder = GraphBuilder(arguments=list(graph.arguments))
    new_id: dict[int, int] = {}
    for node in graph.nodes:
        sources = []
        for source in node.inputs:
            mask = graph[source]
            if is_position_mask(graph.nodes, mask):
                pair = [builder.repeat(graph[i], ()) for i in mask.inputs]
                sources.append(builder.repeat(mask, pair))
            elif mask.op is Op.IOTA:
                sources.append(builder.repeat(mask, ()))
            else:
                sources.append(new_id[source])
        new_id[node.id] = builder.repeat(node, sources)
    return prune(
        Graph(tuple(builder.nodes), graph.arguments, tuple(new_id[o] for o in graph.outputs))
    )
