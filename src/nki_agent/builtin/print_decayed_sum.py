"""Prints what all steps read of a decaying state, a tile of steps at a time."""

from __future__ import annotations

import contextlib

from nki_agent.builtin.decayed_sum_text import HELPERS
from nki_agent.builtin.delta_rule_text import HELPERS as DELTA_RULE_HELPERS
from nki_agent.builtin.delta_rule_text import LIST_HALVES
from nki_agent.builtin.plan import Plan
from nki_agent.builtin.print_rows import OUTER_NAMES
from nki_agent.builtin.regions import Axis, Regions, access_pattern, times
from nki_agent.builtin.resident_plan import DecayedSumPlan, DeltaRulePlan
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Access

GROUPS = 2
"""Groups of heads that take turns; each holds its tiles in SBUF."""


def product_run_helpers(plan: Plan) -> list[str]:
    """The helper functions of stages that join runs of steps by products."""
    helpers: list[str] = []
    if any(isinstance(stage, DeltaRulePlan) for stage in plan.stages):
        helpers += DELTA_RULE_HELPERS
    if any(isinstance(stage, DecayedSumPlan) for stage in plan.stages):
        helpers += [LIST_HALVES, *HELPERS]
    return list(dict.fromkeys(helpers))


def list_constants(source: Source) -> None:
    """Ones, and ones on the diagonal."""
    for name in ("ones", "identity"):
        source.add(
            f"{name} = nl.ndarray((PARTITIONS, PARTITIONS), dtype=nl.float32, buffer=nl.sbuf)"
        )
        source.add(f"nisa.memset(dst={name}, value=1.0)")
    source.add(
        "nisa.affine_select(dst=identity, pattern=[[-1, PARTITIONS]], channel_multiplier=1,"
        " on_true_tile=identity, on_false_value=0.0, cmp_op=nl.equal)"
    )


class DecayedSumPrinter:
    """Prints one DecayedSumPlan into a function body."""

    def __init__(self, plan: DecayedSumPlan, source: Source, scope: Scope) -> None:
        self.plan = plan
        self.source = source
        self.scope = scope
        self.outer = OUTER_NAMES[: len(plan.outer)]

    def print(self) -> None:
        """All steps of all heads."""
        add, plan, block = self.source.add, self.plan, self.source.block
        sizes = {f"num_{name}": size for name, size in zip(self.outer, plan.outer, strict=True)}
        sizes |= {"num_heads": plan.heads, "num_keys": plan.keys}
        sizes |= {"num_values": plan.values, "num_steps": plan.steps}
        for name, size in sizes.items():
            add(f"{name} = {self.scope.size(size)}")
        list_constants(self.source)
        add("halves = list_halves(num_steps)")
        self.source.note("Heads of which one PSUM bank holds every product.")
        add("each = BANK // PARTITIONS")
        self.source.note("Steps of one tile: a run that halves evenly.")
        add("width = 2 ** len(halves)")
        with contextlib.ExitStack() as loops:
            for name in self.outer:
                loops.enter_context(block(f"for {name} in range(num_{name}):"))
            step = f"{GROUPS} * each"
            loops.enter_context(block(f"for h0 in range(0, num_heads, {step}):"))
            add(f"end = min(num_heads, h0 + {step})")
            add(f"states = [{', '.join(['None'] * GROUPS)}]")
            loops.enter_context(block("for t0 in range(0, num_steps, width):"))
            add("size = min(width, num_steps - t0)")
            self._tile()

    def _tile(self) -> None:
        """One tile of steps of the heads that take turns."""
        add, block = self.source.add, self.source.block
        add("groups = []")
        with block("for g0 in range(h0, end, each):"):
            add("count = min(each, end - g0)")
            self._group()
            add("groups.append((total, key, read, decay, turn_steps(value)))")
        with (
            block("for n in range(len(halves)):"),
            block("for g in range(len(groups)):"),
        ):
            add("groups[g] = read_pairs(groups[g], halves[n], 2**n)")
        with block("for g in range(len(groups)):"):
            add("g0 = h0 + g * each")
            add("count = min(each, end - g0)")
            add("states[g] = read_state(groups[g], states[g])")
            add("out = nl.ndarray((num_values, count, size), dtype=nl.float32, buffer=nl.sbuf)")
            add("nisa.activation(dst=out, op=nl.copy, data=groups[g][0][:, :, :size])")
            add(f"nisa.dma_copy(dst={self._region(self.plan.out, 'num_values')}, src=out)")

    def _group(self) -> None:
        """Loads what some heads need, and begins their total."""
        add, plan = self.source.add, self.plan
        for name, access, rows in (
            ("key", plan.key, "num_keys"),
            ("read", plan.read, "num_keys"),
            ("decay", plan.decay, "num_keys"),
            ("value", plan.value, "num_values"),
        ):
            add(f"{name} = load_steps({self._region(access, rows)}, width)")
        bonus = "None"
        if plan.bonus is not None:
            bonus = "bonus"
            add("bonus = nl.ndarray((num_keys, count, 1), dtype=nl.float32, buffer=nl.sbuf)")
            region = self._region(plan.bonus, "num_keys", steps="1")
            add(f"nisa.dma_copy(dst=bonus, src={region})")
        add(f"own = read_own(key, read, value, {bonus}, ones)")
        add("total = nl.ndarray((num_values, count, width), dtype=nl.float32, buffer=nl.psum)")
        add("one = identity[:num_values, :num_values]")
        add("nisa.nc_matmul(dst=total, stationary=one, moving=own, is_stationary_onezero=True)")
        if plan.bonus is None:
            self.source.note("Each step reads the state that it leaves.")
            add("nisa.tensor_tensor(dst=read, data1=read, data2=decay, op=nl.multiply)")

    def _region(self, access: Access, rows: str, *, steps: str = "size") -> str:
        """Keys or values on the partitions, heads and steps behind each other."""
        plan = self.plan
        length = plan.keys if rows == "num_keys" else plan.values
        lengths = [*plan.outer, plan.heads, length, plan.steps]
        axes = [Axis(name="", size=size) for size in lengths]
        *outer, head, row, step = Regions(self.source, self.scope, axes).paces(access.strides)
        pattern = [[row, rows], [head, "count"], [step if steps == "size" else "1", steps]]
        terms = [self.scope.size(access.offset)] if any(access.offset) else []
        walks = [*zip(self.outer, outer, strict=True), ("g0", head)]
        walks += [("t0", step)] if steps == "size" else []
        terms += [times(index, pace) for index, pace in walks if pace != "0"]
        return access_pattern(access.tensor, pattern, terms)
