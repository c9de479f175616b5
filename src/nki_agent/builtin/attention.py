"""Finds and plans attention: softmax(f(q k^T)) v with any elementwise f, one block at a time.

Law: scores never leave SBUF. What lies between the product and the softmax is lowered as the
epilogue of a product is; a mask by position that only cuts keys off shortens the block, so that
keys that no query of it sees are not multiplied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nki_agent.builtin.align import Walk, group_size, group_stride, merge_axes
from nki_agent.builtin.attention_sources import Mask, Slope
from nki_agent.builtin.caps import find_cap
from nki_agent.builtin.capture import Captured
from nki_agent.builtin.choices import Choices
from nki_agent.builtin.graph import Graph, Node, Op, UnsupportedError, contiguous_strides
from nki_agent.builtin.head_rows import loads_rows
from nki_agent.builtin.masks import take_mask_out, take_slope_out
from nki_agent.builtin.matching import Attention
from nki_agent.builtin.plan import AttentionPlan, Stored
from nki_agent.builtin.products import (
    MATRIX_RANK,
    MatmulPlanner,
    Matrices,
    minor_stride,
    product_dtype,
    short_rows,
)
from nki_agent.builtin.stages import Group
from nki_agent.builtin.tile_steps import (
    Access,
    Activate,
    AffineSelect,
    Copy,
    Fill,
    Kind,
    Load,
    Number,
    Scalar,
    Scale,
    Size,
    Step,
    Tile,
    step_writes,
)
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine
from nki_agent.isa.movement import TRANSPOSE_BYTES

SCORES = "scores_block"
"""The part of the scores that one product makes."""
BESIDE = "beside"
"""The tile of the score beside those of the keys."""
BANKS_OF_SCORES = 2
"""PSUM banks for the scores of a block: those of two blocks take half of all, and turned weights
and results the other."""


class AttentionPlanner(MatmulPlanner):
    """Plans one attention: its scores are a product with an epilogue."""

    def __init__(
        self,
        captured: Captured,
        group: Group,
        *,
        buffers: Mapping[int, Stored],
        chip: ChipSpec,
    ) -> None:
        """`group` is the whole attention."""
        assert group.attention is not None
        self.parts: Attention = group.attention
        scores = replace(group, nodes=(self.parts.scores, *self.parts.between))
        super().__init__(captured, scores, buffers=buffers, outputs=(), chip=chip)
        self.out = captured.graph[self.parts.out]
        self.num_queries: Size = tuple(g[self.parts.scores].shape[-2] for g in captured.graphs)
        """Queries that share keys and values."""

    def plan_attention(self, choices: Choices) -> AttentionPlan:
        """Plan the stage."""
        q_id, k_id = self.node.inputs
        v_id = self.out.inputs[1]
        beside = self.parts_beside
        space = self._heads_as_queries(self._space(q_id, k_id, v_id, *beside))
        levels, product, scores = self._between(space)
        tile = self._load_beside(space, levels, *beside)
        mask, slope = self._added(levels, product, scores)
        first, last = _bounds(levels[-1])
        is_shared = slope is None and _are_shared(self.captured.graphs, self.parts)
        has_runs = not is_shared and self._has_runs((first, last))
        is_turned = not (mask or slope) and self._is_turned(levels, product, scores, (first, last))
        cap = find_cap(levels[-1], product, scores) if is_turned else None
        keys = 0 if is_turned else self._seen_keys(first, last)
        scale = cap.factor if cap else self._kept_in_psum(levels, product, scores, keys)
        graphs = self.captured.graphs
        depth = tuple(g[q_id].shape[-1] for g in graphs)
        q, k = self._operand(space, q_id), self._operand(space, k_id)
        plan = AttentionPlan(
            title="attention",
            batch=tuple(group_size(g, space.sizes) for g in space.batch),
            q=q,
            k=k,
            v=self._operand(space, v_id),
            out=self._result(space),
            dtype=product_dtype(self.graph, self.node),
            value_dtype=product_dtype(self.graph, self.out),
            out_dtype=self.buffers[self.out.id].dtype,
            queries=self.num_queries,
            keys=tuple(g[k_id].shape[-1] for g in graphs),
            depth=depth,
            value_depth=tuple(g[v_id].shape[-1] for g in graphs),
            rows_each=short_rows(choices, self.graph[q_id].dtype, depth, self.chip),
            product=product,
            scores=scores,
            levels=tuple(tuple(steps) for steps in levels),
            first_key=first,
            last_key=last,
            beside=tile,
            scale=scale,
            is_turned=is_turned,
            loads_turned=self._loads_turned(q, k, depth),
            has_runs=has_runs,
            is_shared=is_shared and not is_turned,
            mask=mask,
            slope=slope,
            cap=cap,
        )
        return replace(plan, loads_rows=loads_rows(plan, self.chip))

    def _added(
        self, levels: list[list[Step]], product: Tile, scores: Tile
    ) -> tuple[Mask | None, Slope | None]:
        """What is added to products apart from the steps that follow them."""
        if self.parts_beside:
            return None, None
        mask = take_mask_out(levels, product, scores)
        is_exact = product_dtype(self.graph, self.node) is DType.FLOAT32
        slope = take_slope_out(levels, product, scores) if is_exact and mask is None else None
        return mask, slope

    @property
    def parts_beside(self) -> tuple[int, ...]:
        """Scores beside those of the keys."""
        return self.graph[self.parts.softmax].inputs[1:]

    def _load_beside(
        self, space: Matrices, levels: list[list[Step]], node_id: int | None = None
    ) -> Tile | None:
        """The score beside those of the keys, one number for all queries of a block."""
        if node_id is None:
            return None
        access = self._operand(space, node_id)
        level = len(space.batch)
        tile = Tile(name=BESIDE, kind=Kind.ONE, dtype=DType.FLOAT32, level=level)
        row = minor_stride(self.captured, node_id, -2)
        queries = [g[self.parts.scores].shape[-2] for g in self.captured.graphs]
        if any(step and n > 1 for step, n in zip(row, queries, strict=True)):
            raise UnsupportedError(self.out.origin, "each query has a score of its own beside")
        zero = (0,) * len(queries)
        access = replace(access, strides=(*access.strides[:-2], zero, zero))
        levels[level].append(Load(dst=tile, access=access))
        return tile

    @property
    def _bank(self) -> int:
        """float32 columns of one PSUM bank."""
        return self.chip.psum_bank_bytes // DType.FLOAT32.itemsize

    def _seen_keys(self, first: Size | None, last: Size | None) -> int:
        """The most keys that a block of queries sees."""
        keys = [g[self.parts.scores].shape[-1] for g in self.captured.graphs]
        if first is None or last is None:
            return max(keys)
        # A block is as long as the partitions, and so is what its first key is rounded down by.
        spans = [b - a + 2 * self.chip.partitions for a, b in zip(first, last, strict=True)]
        return max(map(min, keys, spans))

    def _kept_in_psum(
        self, levels: list[list[Step]], product: Tile, scores: Tile, keys: int
    ) -> Number | None:
        """The factor of scores that are read where the product leaves them; it is taken out.

        None where more than a factor and choices by position is between product and softmax, or
        where PSUM has too little room.
        """
        values = max(g[self.parts.out].shape[-1] for g in self.captured.graphs)
        if keys > self._bank * BANKS_OF_SCORES or values >= self._bank:
            return None
        scale = self._factor(levels[-1], product, scores)
        if scale is not None:
            levels[-1] = levels[-1][1:]
        return scale

    def _is_turned(
        self,
        levels: list[list[Step]],
        product: Tile,
        scores: Tile,
        bounds: tuple[Size | None, Size | None],
    ) -> bool:
        """Whether scores have the keys on the partitions, so that weights need not be turned.

        Where first and last keys are all that choices by position say, and blocks of queries are
        whole: few queries would be moved through the array, of which each pass has room for many.
        """
        graphs = self.captured.graphs
        queries = max(self.num_queries)
        values = max(g[self.parts.out].shape[-1] for g in graphs)
        dtypes = (product_dtype(self.graph, self.node), product_dtype(self.graph, self.out))
        early = [s for steps in levels[:-1] for s in steps if tile_of_load(s) != BESIDE]
        return (
            all(d.itemsize == TRANSPOSE_BYTES for d in dtypes)
            and queries >= self.chip.partitions
            and values < self._bank
            and not early
            and self._is_all_known(levels[-1], product, scores, bounds)
        )

    def _loads_turned(self, q: Access, k: Access, depth: Size) -> bool:
        """Whether DMA turns rows: of 2 bytes an element, and fast, as they meet or are long.

        Deep rows would be read in parts, which are short again.
        """
        rows = zip(q.strides[-2], k.strides[-1], depth, strict=True)
        lanes, deepest = self.chip.partitions, max(depth)
        is_fast = deepest == lanes or all(a == b == n for a, b, n in rows)
        dtype = product_dtype(self.graph, self.node)
        return dtype.itemsize == TRANSPOSE_BYTES and deepest <= lanes and is_fast

    def _has_runs(self, bounds: tuple[Size | None, Size | None]) -> bool:
        """Whether values may lie in another order than their keys, to be loaded in longer runs.

        Weights are then turned in steps over the keys, which is free where queries are few.
        """
        few = max(self.num_queries) <= self.chip.min_instruction_cycles
        return bounds == (None, None) and few

    def _is_all_known(
        self,
        steps: list[Step],
        product: Tile,
        scores: Tile,
        bounds: tuple[Size | None, Size | None],
    ) -> bool:
        """Whether a factor or a cap and the first and last keys are all that there is."""
        selects = sum(isinstance(step, AffineSelect) for step in steps)
        if selects != sum(bound is not None for bound in bounds):
            return False
        if find_cap(steps, product, scores) is not None:
            return self.parts_beside == ()
        return self._factor(steps, product, scores) is not None

    def _factor(self, steps: list[Step], product: Tile, scores: Tile) -> Number | None:
        """What the first step multiplies scores by, if all others only hide some."""
        graphs = self.captured.graphs
        if not steps:
            return None
        first, *rest = steps
        hides = all(
            isinstance(s, AffineSelect) and s.dst == s.data and max(s.value) < _FAR_BELOW
            for s in rest
        )
        scale: Number | None = None
        match first:
            case Activate(function="copy", data=data, scale=factor, bias=None, sums=None):
                if data == product and isinstance(factor, tuple) and min(factor) > 0:
                    scale = factor
            case Copy(src=src) if src == product:
                scale = (1.0,) * len(graphs)
            case _:
                pass
        return scale if hides and step_writes(first) == (scores,) else None

    # -- axes -------------------------------------------------------------------------------------
    def _space(self, *operands: int) -> Matrices:
        sizes = tuple(a.sizes for a in self.alignments)
        walks = [self._lead(o) for o in operands] + [self._lead(self.out.id)]
        walks += [self._walks(s, axes) for s, axes in self.operands.items()]
        by_set = [[walk[i] for walk in walks] for i in range(len(sizes))]
        fences = frozenset({-MATRIX_RANK, -1})
        groups = merge_axes(self.alignments[0].order, sizes, by_set, fences=fences)
        return Matrices(tuple(groups[:-2]), groups[-2], sizes)

    def _lead(self, node_id: int) -> list[Walk]:
        """How an operand or the result runs along the leading axes alone."""
        found = []
        for index, (graph, alignment) in enumerate(
            zip(self.captured.graphs, self.alignments, strict=True)
        ):
            node = graph[node_id]
            stored = self.buffers.get(node_id)
            strides = node.strides if node.op is Op.VIEW else contiguous_strides(node.shape)
            offset = node.offset
            if node_id == self.out.id and stored is not None and stored.strides is not None:
                assert stored.offset is not None
                strides = tuple(size[index] for size in stored.strides)
                offset = stored.offset[index]
            rank = len(node.shape)
            walk: dict[int, int] = {}
            for dim in range(rank - MATRIX_RANK):
                axis = dim - rank
                shared = node.shape[dim] == 1 and alignment.sizes.get(axis, 1) != 1
                walk[axis] = 0 if shared else strides[dim]
            found.append(Walk(walk, offset))
        return found

    def _heads_as_queries(self, space: Matrices) -> Matrices:
        """One query for each of some heads that share keys and values: together a block."""
        by_position = any(self.graph.base(s).op is Op.IOTA for s in self.operands)
        if any(n != 1 for n in self.num_queries) or by_position or self.parts_beside:
            return space
        shared = (self._lead(i) for i in (self.node.inputs[1], self.out.inputs[1]))
        if not space.batch or any(
            any(group_stride(space.batch[-1], walks, space.sizes)) for walks in shared
        ):
            return space
        *batch, heads = space.batch
        self.num_queries = group_size(heads, space.sizes)
        return Matrices(tuple(batch), heads, space.sizes)

    def _minor(self, space: Matrices, node_id: int) -> list[Size]:
        """The strides of the two axes of a matrix."""
        minor = [minor_stride(self.captured, node_id, dim) for dim in (-2, -1)]
        if -MATRIX_RANK not in space.rows and node_id in (self.node.inputs[0], self.out.id):
            minor[0] = group_stride(space.rows, self._lead(node_id), space.sizes)
        return minor

    def _operand(self, space: Matrices, node_id: int) -> Access:
        minor = self._minor(space, node_id)
        return space.access(self._name(node_id), self._lead(node_id), *minor, is_left=False)

    def _result(self, space: Matrices) -> Access:
        stored = self.buffers[self.out.id]
        minor = self._minor(space, self.out.id)
        if stored.strides is not None:
            minor[-1] = stored.strides[-1]
            minor[0] = stored.strides[-MATRIX_RANK] if -MATRIX_RANK in space.rows else minor[0]
        return space.access(stored.name, self._lead(self.out.id), *minor, is_left=False)

    # -- between the product and the softmax ------------------------------------------------------
    def _between(self, space: Matrices) -> tuple[list[list[Step]], Tile, Tile]:
        lowering, product = self.start(space)
        for node_id in self.group.nodes:
            if node_id != self.node.id:
                lowering.lower(self.graph[node_id])
        made = lowering.settle(self.graph[self.parts.softmax].inputs[0], SCORES)
        if made.kind is not Kind.FULL:
            raise UnsupportedError(self.out.origin, "its scores do not depend on the queries")
        scores = replace(made, name=SCORES, dtype=DType.FLOAT32)
        levels = [list(steps) for steps in lowering.levels]
        levels[-1] = [_renamed(on_scalar(step), made, scores) for step in levels[-1]]
        return levels, product, scores


def tile_of_load(step: Step) -> str:
    """The name of what a step loads."""
    return step.dst.name if isinstance(step, Load) else ""


def fits(captured: Captured, attention: Attention, chip: ChipSpec) -> bool:
    """Whether scores of one block of query rows, keys and values fit SBUF at every shape set."""
    bank = chip.psum_bank_bytes // DType.FLOAT32.itemsize
    for graph in captured.graphs:
        scores, out = graph[attention.scores], graph[attention.out]
        q, v = graph[scores.inputs[0]], graph[out.inputs[1]]
        if any(not n.dtype.is_float for n in (q, v)) or out.shape[-1] > bank:
            return False
        lanes = chip.partitions
        queries, keys = scores.shape[-2:]
        turned = -(-q.shape[-1] // lanes) * (keys + queries) * q.dtype.itemsize
        values = -(-keys // lanes) * out.shape[-1] * v.dtype.itemsize
        # Scores and exponentials of the blocks that are under way.
        working = 2 * keys * (DType.FLOAT32.itemsize + 2 * v.dtype.itemsize)
        if queries <= lanes:
            # Each block has keys of its own: those of the next are loaded meanwhile, and values
            # stay until the block after the next.
            held = 2 if _are_shared(captured.graphs, attention) else 3
            turned, values = 2 * turned, held * values
        if turned + values + working > chip.sbuf_usable_partition_bytes:
            return False
    return True


def _are_shared(graphs: Sequence[Graph], attention: Attention) -> bool:
    """Whether keys and values are the same, so that keys are turned from values in SBUF."""
    for graph in graphs:
        k, v = graph[graph[attention.scores].inputs[1]], graph[graph[attention.out].inputs[1]]
        if Op.VIEW not in (k.op, v.op) or graph.base(k.id) != graph.base(v.id):
            return False
        (*k_batch, k_last, k_row), (*v_batch, v_row, v_last) = _strides(k), _strides(v)
        if (k_batch, k_row, k_last, k.offset) != (v_batch, v_row, v_last, v.offset):
            return False
        if k.dtype is not v.dtype or k.shape[:-2] != v.shape[:-2] or k.shape[-2] != v.shape[-1]:
            return False
    return True


def _strides(node: Node) -> tuple[int, ...]:
    """How a value lies in the tensor that it is a view of."""
    return node.strides if node.op is Op.VIEW else contiguous_strides(node.shape)


def on_scalar(step: Step) -> Step:
    """Scaling and filling elsewhere: the Vector Engine has the maxima and the transposes."""
    match step:
        case Scale(scalars=(Scalar(op="multiply", operand=scale),)) if step.data.in_psum:
            return Activate(dst=step.dst, function="copy", data=step.data, scale=scale)
        case Fill(engine=None):
            return replace(step, engine=Engine.GPSIMD)
        case _:
            return step


def _bounds(steps: Sequence[Step]) -> tuple[Size | None, Size | None]:
    """The first and the last key that a row sees, relative to the row.

    Only where choices by position are the last thing that happens to the scores.
    """
    first = last = None
    for step in reversed(steps):
        if not isinstance(step, AffineSelect) or max(step.value) > _FAR_BELOW:
            break
        bound = bound_of(step)
        if bound is None:
            break
        is_last, size = bound
        if is_last and last is None:
            last = size
        elif not is_last and first is None:
            first = size
    return first, last


_FAR_BELOW = -1e30
"""Scores below it have no weight beside any other."""


def bound_of(step: AffineSelect) -> tuple[bool, Size] | None:
    """(Whether it is an upper bound, last or first visible key minus the row) of one choice."""
    *batch, row, col = step.access.strides
    ahead = all(r == 1 and c == -1 for r, c in zip(row, col, strict=True))
    behind = all(r == -1 and c == 1 for r, c in zip(row, col, strict=True))
    if any(any(s) for s in batch) or not (ahead or behind):
        return None
    op = step.op if ahead else _MIRRORED.get(step.op, "")
    offset = step.access.offset if ahead else tuple(-n for n in step.access.offset)
    match op:
        case "greater_equal":
            return True, offset
        case "greater":
            return True, tuple(n - 1 for n in offset)
        case "less_equal":
            return False, offset
        case "less":
            return False, tuple(n + 1 for n in offset)
        case _:
            return None


_MIRRORED = {
    "less": "greater",
    "greater": "less",
    "less_equal": "greater_equal",
    "greater_equal": "less_equal",
}


def _renamed(step: Step, old: Tile, new: Tile) -> Step:
    """The same step with one tile under another name."""
    changes: dict[str, Any] = {
        name: new for name in ("dst", "data", "first", "second", "other", "src", "predicate")
        if getattr(step, name, None) == old
    }  # fmt: skip
    return replace(step, **changes) if changes else step
