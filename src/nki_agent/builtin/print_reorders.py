"""Prints a copy of short runs that are put in order on the chip."""

from __future__ import annotations

from nki_agent.builtin.print_rows import OUTER_NAMES
from nki_agent.builtin.regions import access_pattern, times
from nki_agent.builtin.reorder_plan import ReorderPlan
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Size

AXES = ("a", "b", "c", "d")
"""The axes in each partition, in the order of the target."""


class ReorderPrinter:
    """Prints one ReorderPlan into a function body."""

    def __init__(self, plan: ReorderPlan, source: Source, scope: Scope) -> None:
        self.plan = plan
        self.source = source
        self.scope = scope
        self.loops = OUTER_NAMES[: len(plan.loops)]
        self.axes = AXES[: len(plan.inner)]

    def print(self) -> None:
        """The whole stage."""
        plan, add = self.plan, self.source.add
        for name, run in zip((*self.loops, *self.axes), (*plan.loops, *plan.inner), strict=True):
            self._size(f"num_{name}", run.size)
        if plan.outer is not None:
            self._size("num_outer", plan.outer.size)
        self._size("num_rows", plan.rows.size)
        add(f"num_cols = {' * '.join(f'num_{name}' for name in self.axes)}")
        counts = [f"num_{name}" for name in self.loops]
        counts += ["num_outer"] * (plan.outer is not None) + ["num_rows"]
        add(f"target_rows = {plan.target}.reshape(({' * '.join(counts)}, num_cols))")
        self.source.note(
            "Long runs are loaded and stored; between them each partition puts its own in order."
        )
        add("tiles = 0")
        if plan.outer is not None:
            add("lanes = max(1, PARTITIONS // num_rows)")
        self._loop(0)

    def _size(self, name: str, size: Size) -> None:
        self.source.add(f"{name} = {self.scope.from_shapes(size)}")
        if any(n != 1 for n in size):
            self.scope.names.setdefault(name, size)

    def _loop(self, level: int) -> None:
        if level < len(self.loops):
            name = self.loops[level]
            with self.source.block(f"for {name} in range(num_{name}):"):
                self._loop(level + 1)
            return
        if self.plan.outer is None:
            self._rows()
            return
        with self.source.block("for o0 in range(0, num_outer, lanes):"):
            self.source.add("count = min(lanes, num_outer - o0)")
            self._rows()

    def _rows(self) -> None:
        add, plan = self.source.add, self.plan
        sizes = [f"num_{name}" for name in self.axes]
        own = [sizes[axis] for axis in plan.by_source]
        dtype = f"nl.{plan.dtype.value}"
        with self.source.block("for r0 in range(0, num_rows, PARTITIONS):"):
            add("rows = min(PARTITIONS, num_rows - r0)")
            lanes = "rows" if plan.outer is None else "count * rows"
            add(f"found = nl.ndarray(({lanes}, {', '.join(own)}), dtype={dtype}, buffer=nl.sbuf)")
            if plan.outer is None:
                add(f"nisa.dma_copy(dst=found, src={self._region()})")
            else:
                with self.source.block("for o in range(count):"):
                    add("index = o0 + o")
                    part = "found[o * rows : (o + 1) * rows]"
                    add(f"nisa.dma_copy(dst={part}, src={self._region()})")
            add(f"tile = nl.ndarray(({lanes}, {', '.join(sizes)}), dtype={dtype}, buffer=nl.sbuf)")
            order = ", ".join(str(axis + 1) for axis in plan.by_source)
            add(f"ordered = tile.permute((0, {order}))")
            self.source.note("Two engines take tiles by turns.")
            with self.source.block("if tiles % 2:"):
                add("nisa.activation(dst=ordered, op=nl.copy, data=found)")
            with self.source.block("else:"):
                add("nisa.tensor_copy(dst=ordered, src=found)")
            add("tiles += 1")
            add(f"first = {self._first()}")
            add(
                f"nisa.dma_copy(dst=target_rows[first : first + {lanes}, :],"
                f" src=tile.reshape(({lanes}, num_cols)))"
            )

    def _region(self) -> str:
        """What one transfer loads: rows, and in each the inner axes as the source has them."""
        plan, size = self.plan, self.scope.size
        terms = [size(plan.offset)] if any(plan.offset) else []
        for name, run in zip(self.loops, plan.loops, strict=True):
            terms.append(times(name, size(run.stride)))
        if plan.outer is not None:
            terms.append(times("index", size(plan.outer.stride)))
        terms.append(times("r0", size(plan.rows.stride)))
        pattern = [[size(plan.rows.stride), "rows"]]
        pattern += [
            [size(plan.inner[axis].stride), f"num_{self.axes[axis]}"] for axis in plan.by_source
        ]
        return access_pattern(plan.source, pattern, terms)

    def _first(self) -> str:
        """The row of the target where the tile begins."""
        text = ""
        counts = [f"num_{name}" for name in self.loops[1:]]
        counts += ["num_outer"] * (self.plan.outer is not None)
        for name, count in zip(self.loops, counts, strict=False):
            text = f"({text} + {name}) * {count}" if text else f"{name} * {count}"
        if self.plan.outer is not None:
            text = f"({text} + o0)" if text else "o0"
        elif self.loops:
            text = f"({text.rpartition(' * ')[0] or self.loops[-1]})"
        return f"{text} * num_rows + r0" if text else "r0"
