"""Loads rows that hold all heads side by side once, and takes the columns of each head in SBUF.

Law: a head's own columns are short runs of memory, of which each transfer moves few bytes at a
time; whole rows are as long as all heads together.
"""

from __future__ import annotations

from nki_agent.builtin.attention_sources import Pages
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
        if plan.pages is not None:
            self._load_pages(plan.pages)
            return
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

    def view(self) -> str:
        """The values of the current head, where they lie."""
        start = f"{self.loops.names[-1]} * value_depth"
        return f"v_rows[:, :, {start} : {start} + value_depth]"

    def _load_pages(self, pages: Pages) -> None:
        """Keys and values of all heads of a sequence."""
        add, name = self.source.add, self.loops.names[0]
        length = self.scope.size(pages.length)
        self.source.note("Pages hold the rows of all heads, and are loaded by their numbers.")
        add(f"num_pages = num_keys // {length}")
        add("places = nl.ndarray((1, num_pages), dtype=nl.int32, buffer=nl.sbuf)")
        index = f"{pages.index}.reshape((num_{name}, num_pages))[{name} : {name} + 1, :]"
        add(f"nisa.dma_copy(dst=places, src={index})")
        for part, tensor, row in (
            ("k", self.plan.k.tensor, pages.key_row),
            ("v", self.plan.v.tensor, pages.value_row),
        ):
            shape = f"({tensor}.shape[0], {length}, {self.scope.size(row)})"
            add(f"{part}_rows = load_pages({tensor}.reshape({shape}), places)")

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
