"""Prints a loop over time in which each row of the state goes its own way.

Law: the loop over time is the innermost one; what it reads and writes moves in transfers for
several steps. Blocks of short rows lie one above another on the partitions, and behind each other
in each partition.
"""

from __future__ import annotations

import contextlib

from nki_agent.builtin.plan import Plan
from nki_agent.builtin.print_rows import OUTER_NAMES
from nki_agent.builtin.print_steps import StepPrinter
from nki_agent.builtin.regions import access_pattern, times
from nki_agent.builtin.resident_plan import ResidentRowsPlan, RowOperand, RowState
from nki_agent.builtin.resident_rows import INPUT_ELEMS, TILE_ELEMS
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Access, Size, Tile

DIVISOR = '''def largest_divisor(number, most):
    """The largest divisor of a number that is at most so large."""
    found = max(1, min(number, most))
    while number % found:
        found -= 1
    return found
'''


def resident_rows_helpers(plan: Plan) -> list[str]:
    """The helper functions that such stages of a plan call."""
    return [DIVISOR] if any(isinstance(s, ResidentRowsPlan) for s in plan.stages) else []


class ResidentRowsPrinter:
    """Prints one ResidentRowsPlan into a function body."""

    def __init__(self, plan: ResidentRowsPlan, source: Source, scope: Scope) -> None:
        self.plan = plan
        self.source = source
        self.scope = scope
        self.steps = StepPrinter(source, scope, row_level=1, cols="num_cols", is_packed=True)
        self.outer = OUTER_NAMES[: len(plan.outer)]

    def print(self) -> None:
        """All steps."""
        add, plan = self.source.add, self.plan
        sizes = {f"num_{name}": size for name, size in zip(self.outer, plan.outer, strict=True)}
        sizes |= {"num_steps": plan.steps, "num_blocks": plan.blocks, "num_rows": plan.rows}
        for name, size in sizes.items():
            add(f"{name} = {self.scope.size(size)}")
        add(f"num_cols = {self.scope.from_shapes(plan.cols, from_last=True)}")
        self.scope.names["num_cols"] = plan.cols
        with contextlib.ExitStack() as loops:
            for name in self.outer:
                loops.enter_context(self.source.block(f"for {name} in range(num_{name}):"))
            loops.enter_context(self.source.block("for r0 in range(0, num_rows, PARTITIONS):"))
            add("height = min(PARTITIONS, num_rows - r0)")
            self.source.note("Blocks of rows above one another, and behind each other.")
            add("stack = largest_divisor(num_blocks, PARTITIONS // height)")
            add("rows = stack * height")
            add(f"each = largest_divisor(num_blocks // stack, {TILE_ELEMS} // num_cols)")
            blocks = "for b0 in range(0, num_blocks, stack * each):"
            loops.enter_context(self.source.block(blocks))
            self._block()

    def _block(self) -> None:
        """All steps of one tile of rows."""
        add = self.source.add
        for step in self.plan.before:
            self.steps.print(step, 0)
        for state in self.plan.states:
            self._initial(state)
        for operand in self.plan.inputs:
            if not operand.is_moving:
                self._load(operand)
        add(f"most_steps = max(1, {INPUT_ELEMS} // (each * num_cols))")
        with self.source.block("for t0 in range(0, num_steps, most_steps):"):
            add("count = min(most_steps, num_steps - t0)")
            for operand in self.plan.inputs:
                if operand.is_moving:
                    self._load(operand)
            for result in self.plan.results:
                self._allocate(f"all_{result.tile.name}", result.tile, "count, each")
            with self.source.block("for t in range(count):"):
                self._step()
            for result in self.plan.results:
                self._move(result.access, f"all_{result.tile.name}", result.tile, is_store=True)

    def _step(self) -> None:
        for operand in self.plan.inputs:
            if operand.is_moving:
                self._name(operand.tile)
        for result in self.plan.results:
            self._name(result.tile)
        for step in self.plan.step:
            self.steps.print(step, 1)
        for state in self.plan.states:
            self.source.add(f"{state.before.name} = {state.after.name}")

    def _name(self, tile: Tile) -> None:
        self.steps.take(tile)
        self.source.add(f"{tile.name} = all_{tile.name}[:, t, :, :]")

    # -- transfers --------------------------------------------------------------------------------
    def _allocate(self, name: str, tile: Tile, blocks: str) -> None:
        cols = "num_cols" if tile.is_wide else "1"
        self.source.add(
            f"{name} = nl.ndarray((rows, {blocks}, {cols}), dtype=nl.{tile.dtype.value},"
            " buffer=nl.sbuf)"
        )

    def _initial(self, state: RowState) -> None:
        self.steps.take(state.before)
        self._allocate(state.before.name, state.before, "each")
        access = state.initial
        steps = ((0,) * len(access.offset), *access.strides)
        whole = Access(tensor=access.tensor, strides=steps, offset=access.offset)
        self._move(whole, state.before.name, state.before, is_stepped=False)

    def _load(self, operand: RowOperand) -> None:
        name = operand.tile.name
        if not operand.is_moving:
            self.steps.take(operand.tile)
            self._allocate(name, operand.tile, "each")
            self._move(operand.access, name, operand.tile, is_stepped=False)
            return
        self._allocate(f"all_{name}", operand.tile, "count, each")
        self._move(operand.access, f"all_{name}", operand.tile)

    def _move(
        self,
        access: Access,
        name: str,
        tile: Tile,
        *,
        is_store: bool = False,
        is_stepped: bool = True,
    ) -> None:
        """One transfer for each block above another."""
        step, *outer, block, row, col = self._strides(access)
        pattern = [[row, "height"], [block, "each"], [col, "num_cols" if tile.is_wide else "1"]]
        if is_stepped:
            pattern.insert(1, [step, "count"])
        offset = [self.scope.size(access.offset)] if any(access.offset) else []
        terms = [("t0", step)] if is_stepped else []
        terms += [*zip(self.outer, outer, strict=True), ("b0", block), ("r0", row)]
        offset += [times(index, stride) for index, stride in terms if stride != "0"]
        single = self.plan.blocks
        if block == "0" or all(n == 1 for n in single):
            loop, part = "for s in range(stack):", []
        else:
            loop, part = "for s in range(stack):", [times("s * each", block)]
        with self.source.block(loop):
            self.source.add(f"lanes = {name}[s * height : (s + 1) * height]")
            hbm = access_pattern(access.tensor, pattern, [*offset, *part])
            dst, src = (hbm, "lanes") if is_store else ("lanes", hbm)
            self.source.add(f"nisa.dma_copy(dst={dst}, src={src})")

    def _strides(self, access: Access) -> list[str]:
        """The strides as text; an axis of one element has any."""
        plan = self.plan
        counts = [plan.steps, *plan.outer, plan.blocks, plan.rows, plan.cols]
        found = []
        for axis, (stride, count) in enumerate(zip(access.strides, counts, strict=True)):
            if not any(stride):
                found.append("0")
                continue
            found.append(self.scope.pace(stride, count, _span(access.strides, counts, axis)))
        return found


def _span(strides: tuple[Size, ...], counts: list[Size], axis: int) -> Size:
    """How far the next axis reaches."""
    if axis + 1 >= len(strides):
        return ()
    return tuple(n * s for n, s in zip(counts[axis + 1], strides[axis + 1], strict=True))
