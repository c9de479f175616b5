"""From a captured task to a plan: stages in order, buffers between them."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from nki_agent.builtin.across import make_across
from nki_agent.builtin.attention import fits
from nki_agent.builtin.caches import join_caches
from nki_agent.builtin.capture import Captured
from nki_agent.builtin.chains import plan_both, turn_chains
from nki_agent.builtin.choices import Choices, Leaving
from nki_agent.builtin.column_sums import join_sums
from nki_agent.builtin.convolutions import WindowPlanner
from nki_agent.builtin.copies import store_copies
from nki_agent.builtin.folds import plan_fold
from nki_agent.builtin.graph import (
    ELEMENTWISE,
    PRODUCTS,
    SOURCES,
    Graph,
    Op,
    UnsupportedError,
    contiguous_strides,
)
from nki_agent.builtin.halves import make_halves_apart
from nki_agent.builtin.hiding import hide_late
from nki_agent.builtin.in_order import reduce_in_order
from nki_agent.builtin.in_place import find_in_place, make_name
from nki_agent.builtin.lookup_rows import LookupPlanner
from nki_agent.builtin.lookups import join_lookups
from nki_agent.builtin.loop_stages import keep_loops, plan_loop
from nki_agent.builtin.matching import find_attention
from nki_agent.builtin.paging import join_pages
from nki_agent.builtin.patches import patches_as_rows
from nki_agent.builtin.picks import plan_pick
from nki_agent.builtin.plan import (
    Argument,
    AttentionPlan,
    Buffer,
    LoopSpan,
    Plan,
    Stage,
    Stored,
)
from nki_agent.builtin.pooling import join_pools
from nki_agent.builtin.product_rows import ProductRowsPlanner, find_tails, with_tail
from nki_agent.builtin.products import plan_transpose
from nki_agent.builtin.relayouts import find_relayouts, strides_in_copy
from nki_agent.builtin.reorders import plan_reorder
from nki_agent.builtin.riders import join_riders
from nki_agent.builtin.row_columns import make_once
from nki_agent.builtin.row_halves import fold_rows
from nki_agent.builtin.rows import RowsPlanner
from nki_agent.builtin.score_sums import join_scores
from nki_agent.builtin.sharing import share_values
from nki_agent.builtin.shortening import SHORT
from nki_agent.builtin.small_products import SmallProductPlanner
from nki_agent.builtin.softmaxes import expand_softmax
from nki_agent.builtin.stacking import stack_rows
from nki_agent.builtin.stage_tensors import stage_reads, stage_writes
from nki_agent.builtin.stages import Group, StageKind, divide
from nki_agent.builtin.stored_operands import read_as_stored
from nki_agent.builtin.symmetry import find_mirrors
from nki_agent.builtin.total_rows import TotalPlanner
from nki_agent.builtin.triangles import skip_zeros
from nki_agent.builtin.twins import join_twins
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType

STEPS_BETWEEN_FEW = 2
"""Steps between scores and softmax that leave the Vector Engine time: a factor and a mask."""
NODES_MAX = 4000
"""Operators of one kernel; what makes more is a loop that could not be rolled up."""


def plan_kernel(
    captured: Captured,
    *,
    arguments: tuple[Argument, ...],
    result_names: tuple[str, ...],
    updates: tuple[str, ...] = (),
    chip: ChipSpec,
    choices: Choices,
) -> Plan:
    """Plan a whole kernel; the graph's last outputs are the new values of `updates`.

    Raises:
        UnsupportedError: what cannot be written, and why.
    """
    _require_small(captured.graph)
    captured = make_halves_apart(share_values(captured))
    captured = _without_softmax(captured, chip, choices)
    captured = make_across(patches_as_rows(hide_late(captured)))
    captured = read_as_stored(reduce_in_order(captured))
    captured, chains = turn_chains(captured, chip)
    groups = keep_loops(captured, divide(captured.graphs, chains), chip)

    given = _Given(arguments, result_names, updates)

    def plan(groups: list[Group]) -> Plan | None:
        with contextlib.suppress(UnsupportedError):
            return _plan_groups(captured, groups, given, chip=chip, choices=choices)
        return None

    if not choices.joining:
        return _plan_groups(captured, groups, given, chip=chip, choices=choices)
    # Stages are joined where rows can go on in SBUF, and stay apart where they cannot.
    joined = join_lookups(captured, groups)
    best = None if joined == groups else plan(joined)
    groups = groups if best is None else joined
    for product, rows in find_tails(captured.graph, groups):
        if product in groups and rows in groups:
            more = with_tail(groups, product, rows)
            found = plan(more)
            best, groups = (best, groups) if found is None else (found, more)
    return best or _plan_groups(captured, groups, given, chip=chip, choices=choices)


@dataclass(frozen=True, slots=True)
class _Given:
    """What a kernel is given, and what it makes."""

    arguments: tuple[Argument, ...]
    results: tuple[str, ...]
    updates: tuple[str, ...]


def _plan_groups(
    captured: Captured,
    groups: list[Group],
    given: _Given,
    *,
    chip: ChipSpec,
    choices: Choices,
) -> Plan:
    """The plan of a graph that is divided into stages."""
    arguments, result_names = given.arguments, given.results
    outputs = _stored(captured.graph, groups)
    relaid = find_relayouts(captured, groups)
    groups = [group for group in groups if group.nodes[0] not in relaid]
    own = {a.name for a in arguments}
    result_names = _beside(own, result_names)
    taken = {*result_names, *own}
    new = {name: make_name(f"new_{name}", taken) for name in given.updates}

    loops = _loops(captured, groups)

    def plan_stages() -> tuple[dict[int, Stored], list[Stage]]:
        final = (*result_names, *new.values())
        named = {node: None for node in outputs if node not in relaid.values()}
        names = _name_values(captured.graph, named, arguments, final)
        if choices.short_tiles:
            names |= _shortened(captured.graph, names, final)
        names |= _relaid(captured, names, relaid)
        names |= _regions(captured, names)
        planned = [_plan_stage(captured, group, names, outputs, chip, choices) for group in groups]
        if not loops:
            dtypes = {stored.name: stored.dtype for stored in names.values()}
            planned = join_caches(planned, kept=final, dtypes=dtypes)
            planned = _join_stages(planned, kept=final, chip=chip, choices=choices)
        return names, planned

    names, stages = plan_stages()
    if inside := [] if loops else find_in_place(stages, new):
        new |= {name: name for name in inside}
        names, stages = plan_stages()
    touched = {name for s in stages for name in (*stage_reads(s), *stage_writes(s))}
    touched |= {*result_names, *new.values()}
    return Plan(
        arguments=arguments,
        buffers=tuple(
            replace(b, is_result=b.name in result_names)
            for b in _buffers(captured, groups, names, relaid)
            if b.name not in own and b.name in touched
        ),
        results=result_names,
        updates=tuple((name, made) for name, made in new.items() if name != made),
        stages=tuple(stages),
        loops=loops,
        leaving=_leaving(choices, stages),
        partitions=chip.partitions,
        bank_cols=chip.psum_bank_bytes // DType.FLOAT32.itemsize,
    )


def _join_stages(
    stages: list[Stage], *, kept: Collection[str], chip: ChipSpec, choices: Choices
) -> list[Stage]:
    """The stages with those in one that can share a pass; `kept` are tensors that are returned."""
    found = join_pools(stages, kept=kept, chip=chip)
    found = join_twins(found, kept=kept, chip=chip, choices=choices)
    found = find_mirrors(skip_zeros(join_riders(found, chip=chip, choices=choices)))
    found = join_sums(found, kept=kept, chip=chip)
    found = join_pages(join_scores(found, kept=kept), kept=kept, chip=chip)
    return stack_rows(store_copies(fold_rows(found, chip=chip)), chip=chip)


def _beside(own: Collection[str], results: tuple[str, ...]) -> tuple[str, ...]:
    """Names of results apart from those of arguments: a gradient may be called as its weight is."""
    taken = {*own, *results}
    return tuple(make_name(f"{n}_result", taken) if n in own else n for n in results)


def _leaving(choices: Choices, stages: Sequence[Stage]) -> Leaving:
    """What copies turned operands out of PSUM, of VECTOR, SCALAR and BOTH."""
    if choices.leaving is not Leaving.SUITED:
        return choices.leaving
    # What lies between scores and softmax is the Vector Engine's, if it is more than a factor.
    between = [s.levels[-1] for s in stages if isinstance(s, AttentionPlan) and s.scale is None]
    is_long = any(len(steps) > STEPS_BETWEEN_FEW for steps in between)
    return Leaving.SCALAR if is_long else Leaving.BOTH


def _require_small(graph: Graph) -> None:
    """Raises: UnsupportedError: the kernel would be too long for anybody to read."""
    count = sum(node.op not in SOURCES | {Op.VIEW} for node in graph.nodes)
    if count > NODES_MAX:
        raise UnsupportedError(
            "the reference",
            f"it has {count:,} operators, and a kernel of up to {NODES_MAX:,} is written",
            hint="make the steps of a loop alike and stack their results, or split the model",
        )


def _without_softmax(captured: Captured, chip: ChipSpec, choices: Choices) -> Captured:
    """Take every softmax apart that is no part of an attention which fits SBUF."""
    found = find_attention(captured.graph) if choices.attention else []
    keep = frozenset(a.softmax for a in found if fits(captured, a, chip))
    return Captured(tuple(expand_softmax(graph, keep) for graph in captured.graphs))


def _loops(captured: Captured, groups: list[Group]) -> tuple[LoopSpan, ...]:
    """The stages that belong to each loop over time."""
    found: dict[int, LoopSpan] = {}
    for index, group in enumerate(groups):
        if group.loop:
            steps = max(
                (tuple(g[n].shape[0] for g in captured.graphs) for n in group.nodes), key=max
            )
            known = found.get(group.loop)
            start = index if known is None else known.start
            steps = steps if known is None else max(steps, known.steps, key=max)
            found[group.loop] = LoopSpan(start=start, end=index + 1, steps=steps)
    return tuple(found.values())


def _stored(graph: Graph, groups: list[Group]) -> dict[int, None]:
    """Nodes that must be in HBM: read by another stage, or an output."""
    owner = {
        node: index
        for index, group in enumerate(groups)
        for node in (*group.nodes, *group.lookups, *group.tail)
    }
    stored: dict[int, None] = {}
    for node in graph.nodes:
        if node.op is Op.VIEW:
            continue
        if node.op is Op.PARTS and node.name:
            stored[node.id] = None
        for source in node.inputs:
            base = graph.base(source).id
            if graph[base].op is Op.PARTS:
                stored[base] = None
            if node.op is Op.PARTS or (base in owner and owner[base] != owner[node.id]):
                stored[base] = None
    for output in graph.outputs:
        stored[graph.base(output).id] = None
    return stored


def _regions(captured: Captured, found: dict[int, Stored]) -> dict[int, Stored]:
    """Where each part of values side by side is written."""
    regions: dict[int, Stored] = {}
    for node in captured.graph.nodes:
        if node.op is not Op.PARTS:
            continue
        whole = found[node.id]
        strides = tuple(
            zip(*(contiguous_strides(g[node.id].shape) for g in captured.graphs), strict=True)
        )
        for index, part in enumerate(node.inputs):
            offset = tuple(g[node.id].places[index] for g in captured.graphs)
            regions[part] = Stored(whole.name, whole.dtype, strides, offset)
    return regions


def _relaid(
    captured: Captured, found: Mapping[int, Stored], relaid: Mapping[int, int]
) -> dict[int, Stored]:
    """Where values are written that a copy would only put in another order."""
    made = {}
    for copy, maker in relaid.items():
        strides = []
        for graph in captured.graphs:
            walk = strides_in_copy(graph[maker], graph[graph[copy].inputs[0]])
            assert walk is not None, "it was found at all shape sets"
            strides.append(walk)
        whole = found[copy]
        offset = (0,) * len(captured.graphs)
        made[maker] = Stored(whole.name, whole.dtype, tuple(zip(*strides, strict=True)), offset)
    return made


def _name_values(
    graph: Graph,
    stored: Mapping[int, None],
    arguments: tuple[Argument, ...],
    results: tuple[str, ...],
) -> dict[int, Stored]:
    found = {node.id: Stored(node.name, node.dtype) for node in graph.nodes if node.op is Op.INPUT}
    for output, name in zip(graph.outputs, results, strict=True):
        base = graph.base(output)
        found[base.id] = Stored(name, base.dtype)
    taken = {a.name for a in arguments} | set(results)
    states = {node.name: node.id for node in graph.nodes if node.op is Op.STATE}
    parts = {i for node in graph.nodes if node.op is Op.PARTS for i in node.inputs}
    for node_id in stored:
        if node_id not in found and node_id not in parts:
            number = 1
            while f"hidden_{number}" in taken:
                number += 1
            found[node_id] = Stored(f"hidden_{number}", _hidden_dtype(graph, node_id))
            taken.add(found[node_id].name)
        if graph[node_id].op is Op.PARTS and graph[node_id].name:
            found[states[graph[node_id].name]] = found[node_id]
    return found


def _shortened(
    graph: Graph, found: Mapping[int, Stored], results: tuple[str, ...]
) -> dict[int, Stored]:
    """What passes between stages in 16 bits where the reference has it so; columns stay float32."""
    return {
        node_id: replace(stored, dtype=graph[node_id].dtype)
        for node_id, stored in found.items()
        if graph[node_id].dtype in SHORT
        and stored.name not in results
        and graph[node_id].op in {*ELEMENTWISE, *PRODUCTS, Op.PARTS}
        and graph[node_id].shape[-1] > 1
    }


def _hidden_dtype(graph: Graph, node_id: int) -> DType:
    """Float32 between stages, but for operands of the Tensor Engine, which keep their own dtype."""
    node = graph[node_id]
    if not node.dtype.is_float:
        return node.dtype
    known = {node_id, *(n.id for n in graph.nodes if n.op is Op.STATE and n.name == node.name)}
    readers = {
        r.op
        for r in graph.nodes
        if r.op is not Op.VIEW and any(graph.base(i).id in known for i in r.inputs)
    }
    return node.dtype if readers & {Op.TRANSPOSE, Op.FOLD, *PRODUCTS} else DType.FLOAT32


def _buffers(
    captured: Captured,
    groups: list[Group],
    stored: Mapping[int, Stored],
    relaid: Mapping[int, int],
) -> tuple[Buffer, ...]:
    outputs = {captured.graph.base(o).id: o for o in captured.graph.outputs}
    found = []
    copies = {maker: copy for copy, maker in relaid.items()}
    made = [
        (copies.get(node, node), group) for group in groups for node in (*group.nodes, *group.tail)
    ]
    whole = [(n.id, None) for n in captured.graph.nodes if n.op is Op.PARTS]
    for node_id, group in (*whole, *made):
        if node_id in stored and stored[node_id].strides is None:
            shape = captured.shape(outputs.get(node_id, node_id))
            found.append(
                Buffer(
                    name=stored[node_id].name,
                    # A tensor of rank 0 is stored as one element.
                    shape=shape or ((1,) * len(captured.graphs),),
                    dtype=stored[node_id].dtype,
                    is_result=node_id in outputs,
                    cols_of="" if group is None else _cols_of(captured.graph, group, stored),
                )
            )
    return tuple(found)


def _cols_of(graph: Graph, group: Group, stored: Mapping[int, Stored]) -> str:
    """The second operand of a stage's last product; `-` says that its last axis is meant."""
    product = next((graph[n] for n in reversed(group.nodes) if graph[n].op is Op.MATMUL), None)
    if product is None:
        return ""
    second = graph[product.inputs[1]]
    is_turned = second.op is Op.VIEW and second.strides[-1] != 1
    return f"{'' if is_turned else '-'}{stored[graph.base(second.id).id].name}"


def _plan_stage(
    captured: Captured,
    group: Group,
    names: Mapping[int, Stored],
    stored: Mapping[int, None],
    chip: ChipSpec,
    choices: Choices,
) -> Stage:
    outputs = [node for node in group.nodes if node in stored]
    if group.loop and group.kind not in (StageKind.ROWS, StageKind.MATMUL, StageKind.TRANSPOSE):
        raise UnsupportedError(
            captured.graph[group.nodes[0]].origin,
            f"{group.kind} in a loop over time is not covered",
        )
    match group.kind:
        case StageKind.ROWS:
            return _plan_rows(captured, group, names, outputs, chip, choices)
        case StageKind.MATMUL:
            return _plan_product(captured, group, names, stored, chip, choices)
        case StageKind.ATTENTION | StageKind.CHAIN:
            return plan_both(captured, group, buffers=names, chip=chip, choices=choices)
        case StageKind.TRANSPOSE:
            reorder = plan_reorder(captured, group, buffers=names, chip=chip)
            return reorder or plan_transpose(captured, group, buffers=names, choices=choices)
        case StageKind.FOLD:
            return plan_fold(captured, group, buffers=names, chip=chip)
        case StageKind.CONVOLUTION | StageKind.POOL:
            window = WindowPlanner(captured, group, buffers=names, outputs=outputs, chip=chip)
            is_pool = group.kind is StageKind.POOL
            return window.pool(choices) if is_pool else window.convolution(choices)
        case StageKind.PICK:
            return plan_pick(captured, group, buffers=names, chip=chip)
        case StageKind.RESIDENT:
            return plan_loop(captured, group, buffers=names, outputs=outputs, chip=chip)


def _plan_product(
    captured: Captured,
    group: Group,
    names: Mapping[int, Stored],
    stored: Mapping[int, None],
    chip: ChipSpec,
    choices: Choices,
) -> Stage:
    """A product: with the pass over its rows, or many small ones, or any other."""
    outputs = [node for node in (*group.nodes, *group.tail) if node in stored]
    if group.tail:
        whole = ProductRowsPlanner(
            captured, group, buffers=names, outputs=outputs, chip=chip, choices=choices
        )
        return whole.plan(choices)
    matmul = SmallProductPlanner(captured, group, buffers=names, outputs=outputs, chip=chip)
    return matmul.plan_small(choices) or matmul.plan(choices)


def _plan_rows(
    captured: Captured,
    group: Group,
    names: Mapping[int, Stored],
    outputs: Sequence[int],
    chip: ChipSpec,
    choices: Choices,
) -> Stage:
    """A pass over rows, or one that only puts elements in another order."""
    planner = RowsPlanner
    if group.lookups:
        planner = LookupPlanner
    elif group.fold is not None:
        planner = TotalPlanner
        total = TotalPlanner(captured, group, buffers=names, outputs=outputs, chip=chip)
        if (decayed := total.plan_sum()) is not None:
            return decayed
    elif reorder := plan_reorder(captured, group, buffers=names, chip=chip):
        return reorder
    plan = planner(captured, group, buffers=names, outputs=outputs, chip=chip).plan(choices)
    return make_once(plan, chip)
