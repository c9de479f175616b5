"""Prints a loop over time that corrects a state by the delta rule, a tile of steps at a time."""

from __future__ import annotations

import contextlib

from nki_agent.builtin.print_decayed_sum import list_constants
from nki_agent.builtin.print_rows import OUTER_NAMES
from nki_agent.builtin.regions import Axis, Regions, access_pattern, times
from nki_agent.builtin.resident_plan import DeltaRulePlan
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Access, Size

GROUPS = 2
"""Groups of heads that take turns; each holds its tiles in SBUF."""


class DeltaRulePrinter:
    """Prints one DeltaRulePlan into a function body."""

    def __init__(self, plan: DeltaRulePlan, source: Source, scope: Scope) -> None:
        self.plan = plan
        self.source = source
        self.scope = scope
        self.outer = OUTER_NAMES[: len(plan.outer)]

    def print(self) -> None:
        """All steps of all heads."""
        add, plan = self.source.add, self.plan
        sizes = {f"num_{name}": size for name, size in zip(self.outer, plan.outer, strict=True)}
        sizes |= {"num_steps": plan.steps, "num_heads": plan.heads}
        sizes |= {"num_rows": plan.rows, "num_cols": plan.cols}
        for name, size in sizes.items():
            add(f"{name} = {self.scope.size(size)}")
        list_constants(self.source)
        add("halves = list_halves(num_steps)")
        self.source.note("Heads of which one PSUM bank holds every product.")
        add("each = BANK // max(PARTITIONS, num_rows)")
        with contextlib.ExitStack() as loops:
            for name in self.outer:
                loops.enter_context(self.source.block(f"for {name} in range(num_{name}):"))
            step = f"{GROUPS} * each"
            loops.enter_context(self.source.block(f"for h0 in range(0, num_heads, {step}):"))
            add(f"end = min(num_heads, h0 + {step})")
            add(f"states = [{', '.join(['None'] * GROUPS)}]")
            loops.enter_context(self.source.block("for t0 in range(0, num_steps, PARTITIONS):"))
            add("rows = min(PARTITIONS, num_steps - t0)")
            self._tile()

    def _tile(self) -> None:
        """One tile of steps of the heads that take turns."""
        add, plan = self.source.add, self.plan
        add("weights, groups = [], []")
        with self.source.block("for g0 in range(h0, end, each):"):
            add("count = min(each, end - g0)")
            for name, access, size in (
                ("key", plan.key, "num_cols"),
                ("query", plan.query, "num_cols"),
                ("value", plan.value, "num_rows"),
                ("share", plan.share, ""),
                ("decay", plan.decay, ""),
            ):
                self._load(name, access, size)
            given = "key, query, value, share, decay, identity, ones"
            add(f"weight, group = prepare_steps({given})")
            add("weights.append(weight)")
            add("groups.append(group)")
        add("inverses = invert(weights, halves, identity)")
        with self.source.block("for g in range(len(groups)):"):
            add("g0 = h0 + g * each")
            add("count = min(each, end - g0)")
            add("out, states[g] = follow_steps(groups[g], inverses[g][0], states[g])")
            add(f"nisa.dma_copy(dst={self._region(plan.out, 'num_rows')}, src=out)")

    def _load(self, name: str, access: Access | None, size: str) -> None:
        if access is None:
            self.source.add(f"{name} = ones[:rows, :count]")
            return
        shape = f"(rows, count, {size})" if size else "(rows, count)"
        self.source.add(f"{name} = nl.ndarray({shape}, dtype=nl.float32, buffer=nl.sbuf)")
        self.source.add(f"nisa.dma_copy(dst={name}, src={self._region(access, size)})")

    def _region(self, access: Access, size: str) -> str:
        """Steps on the partitions, heads behind each other."""
        plan = self.plan
        lengths: list[Size] = [plan.steps, *plan.outer, plan.heads]
        lengths += [getattr(plan, size.removeprefix("num_"))] if size else []
        axes = [Axis(name="", size=length) for length in lengths]
        step, *steps = Regions(self.source, self.scope, axes).paces(access.strides)
        head = steps[len(self.outer)]
        pattern = [[step, "rows"], [head, "count"]]
        pattern += [[steps[-1], size]] if size else []
        terms = [self.scope.size(access.offset)] if any(access.offset) else []
        walks = [("t0", step), *zip(self.outer, steps, strict=False), ("g0", head)]
        terms += [times(index, pace) for index, pace in walks if pace != "0"]
        return access_pattern(access.tensor, pattern, terms)
