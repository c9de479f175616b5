"""Plans many small products at once: their operands come in large transfers, and share tiles.

Law: only for products of few rows each, whose rows follow those of the batch before; anything else
is planned one batch at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from nki_agent.builtin.align import group_size
from nki_agent.builtin.choices import Choices
from nki_agent.builtin.products import (
    MatmulPlanner,
    minor_stride,
    product_dtype,
    short_rows,
)
from nki_agent.builtin.small_product_plan import SmallProductPlan
from nki_agent.builtin.stored_operands import is_mixed
from nki_agent.builtin.tile_steps import (
    Access,
    Kind,
    Load,
    Size,
    Step,
    Store,
    step_reads,
    step_writes,
)
from nki_agent.builtin.titles import describe
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.rules import PARTITION_STARTS

BATCHES_MIN = 16
"""Fewer products are as well made one by one."""
ROWS_MAX = 64
"""More rows fill half the partitions, and their transfers are long enough."""


class SmallProductPlanner(MatmulPlanner):
    """Plans one product of each of many batches, if they are small."""

    def plan_small(self, choices: Choices) -> SmallProductPlan | None:
        """The plan; None where the products are large, few, or lie apart."""
        x_id, w_id = self.node.inputs
        if self.group.loop or is_mixed(self.graph, self.node) or not self._is_small(x_id, w_id):
            return None
        dtype = product_dtype(self.graph, self.node)
        x_walks, w_walks = self._side(x_id), self._side(w_id)
        space = self._merge(x_walks, w_walks)
        if not space.batch or max(group_size(space.batch[-1], space.sizes)) < BATCHES_MIN:
            return None
        k = tuple(g[x_id].shape[-1] for g in self.captured.graphs)
        m, n = group_size(space.rows, space.sizes), tuple(s[-1] for s in space.sizes)
        x = space.access(
            self._name(x_id), x_walks, minor_stride(self.captured, x_id, -1), is_left=True
        )
        minor = [minor_stride(self.captured, w_id, dim) for dim in (-2, -1)]
        w = space.access(self._name(w_id), w_walks, *minor, is_left=False)
        levels, product = self._epilogue(space)
        if not (_lies_together(x, m) and _may_load(w, n) and self._is_simple(levels)):
            return None
        return SmallProductPlan(
            title=describe(self.captured, self.group.nodes),
            batch=tuple(group_size(g, space.sizes) for g in space.batch),
            x=x,
            w=w,
            dtype=dtype,
            m=m,
            k=k,
            n=n,
            x_each=short_rows(choices, dtype, k, self.chip),
            pitch=_pitch(levels[-1], m, self.chip),
            product=product,
            levels=(levels[0], levels[-1]),
        )

    def _is_small(self, x_id: int, w_id: int) -> bool:
        lanes = self.chip.partitions
        for graph in self.captured.graphs:
            (m, k), n = graph[x_id].shape[-2:], graph[w_id].shape[-1]
            if m > ROWS_MAX or k > lanes or n > lanes:
                return False
        return True

    @staticmethod
    def _is_simple(levels: Sequence[Sequence[Step]]) -> bool:
        """Whether the epilogue is of whole tiles alone, and of what is made before all loops."""
        if any(levels[1:-1]) or any(isinstance(step, Load) for step in levels[0]):
            return False
        tiles = {t for s in levels[-1] for t in (*step_reads(s), *step_writes(s)) if t.level}
        moved = [s.access for s in levels[-1] if isinstance(s, Load | Store)]
        return all(t.kind is Kind.FULL for t in tiles) and all(any(a.strides[-3]) for a in moved)


def _pitch(steps: Sequence[Step], rows: Size, chip: ChipSpec) -> int:
    """How far apart results may begin on the partitions; 0 if a step reads what is stored."""
    stored = {step.src for step in steps if isinstance(step, Store)}
    if any(stored & {*step_reads(step)} for step in steps if not isinstance(step, Store)):
        return 0
    pitch = min(size for size in PARTITION_STARTS if size >= max(rows))
    return pitch if pitch < chip.partitions else 0


def _lies_together(access: Access, rows: Size) -> bool:
    """Whether rows follow those of the batch before, and each lies in one run."""
    *_, batch, row, col = access.strides
    reach = tuple(a * b for a, b in zip(rows, row, strict=True))
    return set(col) == {1} and batch == reach


def _may_load(w: Access, cols: Size) -> bool:
    """Whether w has rows of N in one run, or lies as [N, K] like x."""
    *batch, row, col = w.strides
    if not any(batch[-1]):
        return False
    if set(col) == {1}:
        return True
    return _lies_together(
        Access(tensor=w.tensor, strides=(*batch, col, row), offset=w.offset), cols
    )
