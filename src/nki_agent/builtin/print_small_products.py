"""Prints many small products, a group of batches at a time.

Law: the text fits any number of batches, and any sizes of the products.
"""

from __future__ import annotations

import contextlib

from nki_agent.builtin.print_products import call_loader, swap_axes
from nki_agent.builtin.print_rows import OUTER_NAMES
from nki_agent.builtin.print_steps import StepPrinter
from nki_agent.builtin.regions import access_pattern, times
from nki_agent.builtin.small_product_plan import SmallProductPlan
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import (
    Access,
    Load,
    Size,
    Step,
    Store,
    Tile,
    step_writes,
)

GROUP_ELEMS = 8192
"""Elements of turned operands in one partition, of one group of batches."""


class SmallProductPrinter:
    """Prints one SmallProductPlan into a function body."""

    def __init__(self, plan: SmallProductPlan, source: Source, scope: Scope) -> None:
        self.plan = plan
        self.source = source
        self.scope = scope
        self.outer = OUTER_NAMES[: len(plan.batch) - 1]
        self.steps = StepPrinter(source, scope, row_level=1, cols="cols", is_packed=True)
        self.steps.take(plan.product)

    def print(self) -> None:
        """All products."""
        add, plan = self.source.add, self.plan
        *outer, batches = plan.batch
        sizes = {f"num_{name}": size for name, size in zip(self.outer, outer, strict=True)}
        sizes |= {"num_batches": batches, "num_rows": plan.m, "depth": plan.k, "num_cols": plan.n}
        for name, size in sizes.items():
            add(f"{name} = {self.scope.size(size)}")
        add("k_tiles = (depth + PARTITIONS - 1) // PARTITIONS")
        self.source.note("Operands of many batches are loaded and turned together.")
        add(f"most = max(1, {GROUP_ELEMS} // (k_tiles * max(num_rows, num_cols)))")
        for step in plan.levels[0]:
            self.steps.print(step, 0)
        with contextlib.ExitStack() as loops:
            for name in self.outer:
                loops.enter_context(self.source.block(f"for {name} in range(num_{name}):"))
            loops.enter_context(self.source.block("for g0 in range(0, num_batches, most):"))
            self._group()

    def _group(self) -> None:
        """The products of one group of batches."""
        add = self.source.add
        add("count = min(most, num_batches - g0)")
        self._load_turned("x_turned", self.plan.x, "num_rows")
        w = "x_turned" if self.plan.is_square else "w_turned"
        if not self.plan.is_square:
            self._load_w()
        with self.source.block("for r0 in range(0, num_rows, PARTITIONS):"):
            add("rows = min(PARTITIONS, num_rows - r0)")
            with self.source.block("for n0 in range(0, num_cols, BANK):"):
                add("cols = min(BANK, num_cols - n0)")
                self.source.note("As many products as fit leave a PSUM bank together.")
                add("together = BANK // cols")
                with self.source.block("for b0 in range(0, count, together):"):
                    add("each = min(together, count - b0)")
                    self._multiply(w)
                    if self.plan.pitch:
                        self.source.note(
                            "By turns on other partitions: those of other DMA engines."
                        )
                        add(f"lane = b0 // together * {self.plan.pitch} % PARTITIONS")
                    for step in self.plan.levels[1]:
                        self._step(step)

    def _multiply(self, w: str) -> None:
        add, product = self.source.add, self.plan.product.name
        add(f"{product} = nl.ndarray((rows, each, cols), dtype=nl.float32, buffer=nl.psum)")
        with self.source.block("for b in range(each):"):
            add("row, col = (b0 + b) * num_rows + r0, (b0 + b) * num_cols + n0")
            with self.source.block("for k in range(k_tiles):"):
                add("size = min(PARTITIONS, depth - k * PARTITIONS)")
                add(
                    f"nisa.nc_matmul(dst={product}[:, b, :],"
                    " stationary=x_turned[:size, k, row : row + rows],"
                    f" moving={w}[:size, k, col : col + cols])"
                )

    # -- operands ---------------------------------------------------------------------------------
    def _load_turned(self, name: str, access: Access, count: str) -> None:
        """Rows of all batches of the group follow each other."""
        dtype = self.plan.dtype.value
        self.source.add(
            f"{name} = nl.ndarray((PARTITIONS, k_tiles, count * {count}), dtype=nl.{dtype},"
            " buffer=nl.sbuf)"
        )
        *outer, batch, row, _ = self._strides(
            access, self.plan.m if count == "num_rows" else self.plan.n
        )
        terms = self._terms(access, outer, batch)
        text = access_pattern(access.tensor, [[row, f"count * {count}"], ["1", "depth"]], terms)
        self.source.add(call_loader(name, text, self.plan.x_each))

    def _load_w(self) -> None:
        plan, add = self.plan, self.source.add
        if plan.is_w_turned:
            self._load_turned("w_turned", swap_axes(plan.w), "num_cols")
            return
        dtype = plan.dtype.value
        add(
            f"w_turned = nl.ndarray((PARTITIONS, k_tiles, count * num_cols), dtype=nl.{dtype},"
            " buffer=nl.sbuf)"
        )
        *outer, batch, row, _ = self._strides(plan.w, plan.k)
        with self.source.block("for k in range(k_tiles):"):
            add("size = min(PARTITIONS, depth - k * PARTITIONS)")
            terms = [*self._terms(plan.w, outer, batch), times("k * PARTITIONS", row)]
            pattern = [[row, "size"], [batch, "count"], ["1", "num_cols"]]
            text = access_pattern(plan.w.tensor, pattern, terms)
            add("block = w_turned[:size, k, :].reshape_dim(1, (count, num_cols))")
            add(f"nisa.dma_copy(dst=block, src={text})")

    def _strides(self, access: Access, rows: Size) -> list[str]:
        """Strides as text; an axis of one element has any."""
        plan = self.plan
        counts = [*plan.batch, rows, plan.n]
        found = []
        for axis, (stride, count) in enumerate(zip(access.strides, counts, strict=True)):
            span: Size = ()
            if axis + 1 < len(counts):
                after = zip(counts[axis + 1], access.strides[axis + 1], strict=True)
                span = tuple(a * b for a, b in after)
            found.append(self.scope.pace(stride, count, span) if any(stride) else "0")
        return found

    def _terms(self, access: Access, outer: list[str], batch: str, start: str = "g0") -> list[str]:
        offset = [self.scope.size(access.offset)] if any(access.offset) else []
        pairs = [*zip(self.outer, outer, strict=True), (start, batch)]
        return [*offset, *(times(at, stride) for at, stride in pairs if stride != "0")]

    # -- what follows -----------------------------------------------------------------------------
    def _step(self, step: Step) -> None:
        match step:
            case Load():
                self.steps.allocate(step.dst)
                self.source.add(
                    f"nisa.dma_copy(dst={step.dst.name}, src={self._region(step.access)})"
                )
            case Store():
                self.source.add(
                    f"nisa.dma_copy(dst={self._region(step.access)}, src={step.src.name})"
                )
            case _:
                for tile in step_writes(step) if self.plan.pitch else ():
                    self._place(tile)
                self.steps.print(step, 1)

    def _place(self, tile: Tile) -> None:
        """Where on the partitions a tile lies that is stored."""
        stored = {s.src for s in self.plan.levels[1] if isinstance(s, Store)}
        if tile in stored:
            dtype, lanes = f"nl.{tile.dtype.value}", f"{tile.name}_lanes"
            shape = "(PARTITIONS, each, cols)"
            self.source.add(f"{lanes} = nl.ndarray({shape}, dtype={dtype}, buffer=nl.sbuf)")
            self.source.add(f"{tile.name} = {lanes}[lane : lane + rows]")
            self.steps.take(tile)

    def _region(self, access: Access) -> str:
        """The part of a tensor that belongs to the results of a tile."""
        *outer, batch, row, col = self._strides(access, self.plan.m)
        terms = self._terms(access, outer, batch, "(g0 + b0)")
        terms += [times("r0", row)] if row != "0" else []
        terms += [times("n0", col)] if col != "0" else []
        return access_pattern(access.tensor, [[row, "rows"], [batch, "each"], [col, "cols"]], terms)
