"""Loads rows that hold all heads side by side once, and takes the columns of each head in SBUF.

Law: a head's own columns are short runs of memory, of which each transfer moves few bytes at a
time; whole rows are as long as all heads together.
"""

from __future__ import annotations

from nki_agent.builtin.plan import AttentionPlan
from nki_agent.builtin.print_products import Loops, swap_axes
from nki_agent.builtin.regions import access_pattern, times
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Access, Size


class HeadRows:
    """Prints the loads of an attention whose innermost loop is over heads side by side."""

    def __init__(self, plan: AttentionPlan, source: Source, scope: Scope, loops: Loops) -> None:
        self.plan = plan
        self.source = source
        self.scope = scope
        self.loops = loops

    def load(self) -> None:
        """Rows of queries, keys and values, before the loop over the heads."""
        plan = self.plan
        self.source.note("Rows hold all heads: one load for all, of long runs of memory.")
        for name, access, rows, cols in (
            ("q", plan.q, ("num_queries", plan.queries), ("depth", plan.depth)),
            ("k", swap_axes(plan.k), ("num_keys", plan.keys), ("depth", plan.depth)),
            ("v", plan.v, ("num_keys", plan.keys), ("value_depth", plan.value_depth)),
        ):
            text = self._region(access, rows, cols)
            self.source.add(f"{name}_rows = load_heads({text})")

    def turn(self, name: str) -> str:
        """The call that turns queries or keys of the current head."""
        return f"turn_head({name}, {name[0]}_rows, {self.loops.names[-1]} * depth, depth)"

    def take(self, part: str) -> str:
        """The call that takes the values of the current head."""
        return f"take_head({part}, v_rows, {self.loops.names[-1]} * value_depth, num_keys)"

    def _region(self, access: Access, rows: tuple[str, Size], cols: tuple[str, Size]) -> str:
        """All columns of all heads of the current batch."""
        *outer, head, row, col = access.strides
        heads = self.plan.batch[-1]
        strides, counts = [*outer, row, head], [*self.plan.batch[:-1], rows[1], heads]
        steps = []
        for axis, (stride, count) in enumerate(zip(strides[:-1], counts[:-1], strict=True)):
            pairs = zip(strides[axis + 1], counts[axis + 1], strict=True)
            steps.append(self.scope.pace(stride, count, tuple(a * b for a, b in pairs)))
        terms = [self.scope.size(access.offset)] if any(access.offset) else []
        terms += [times(at, step) for at, step in zip(self.loops.names, steps[:-1], strict=False)]
        wide = f"num_{self.loops.names[-1]} * {cols[0]}"
        pattern = [[steps[-1], rows[0]], [self.scope.size(col), wide]]
        return access_pattern(access.tensor, pattern, terms)
