"""Prints a stored transpose whose rows are short: each partition takes several that follow.

So a run of the result is several rows long, where one would cost the DMA engines more than it
brings.
"""

from __future__ import annotations

from nki_agent.builtin.print_products import TransposePrinter
from nki_agent.builtin.regions import access_pattern, times
from nki_agent.builtin.tile_steps import Access


class ShortTransposePrinter(TransposePrinter):
    """Prints one such TransposePlan into a function body."""

    def print(self) -> None:
        """The whole transpose."""
        read = self.plan.source.tensor
        rows, cols = (self.plan.m, read), (self.plan.n, f"-{read}")
        self.loops.name_sizes(read, num_rows=rows, num_cols=cols)
        self._batch(0)

    def _batch(self, level: int) -> None:
        if level < len(self.plan.batch):
            with self.loops.loop(level):
                self._batch(level + 1)
            return
        add, plan, block = self.source.add, self.plan, self.source.block
        dtype = f"nl.{plan.dtype.value}"
        with block(f"for start, size, each in row_blocks(num_cols, {plan.rows_each}):"):
            add(f"tile = nl.ndarray((num_rows, each * size), dtype={dtype}, buffer=nl.sbuf)")
            pace, step = (self._pace(plan.source, axis) for axis in (-2, -1))
            offset = [*self._start(plan.source), times("start", step)]
            pattern = [[pace, "num_rows"], [step, "each * size"]]
            text = access_pattern(plan.source.tensor, pattern, offset)
            add(f"nisa.dma_copy(dst=tile, src={text})")
            self.source.note("Each partition takes `each` rows of the result, one after the other.")
            add(f"rows = nl.ndarray((size, each, num_rows), dtype={dtype}, buffer=nl.sbuf)")
            with block("for e0 in range(0, each, BANK // PARTITIONS):"):
                add("count = min(BANK // PARTITIONS, each - e0)")
                add(f"turned = nl.ndarray((size, count, num_rows), dtype={dtype}, buffer=nl.psum)")
                with block("for e in range(count):"):
                    add("nisa.nc_transpose(dst=turned[:, e, :], data=tile[:, e0 + e :: each])")
                add("nisa.tensor_copy(dst=rows[:, e0 : e0 + count, :], src=turned)")
            pace, step = (self._pace(plan.target, axis) for axis in (-2, -1))
            offset = [*self._start(plan.target), times("start", pace)]
            pattern = [[times("each", pace), "size"], [pace, "each"], [step, "num_rows"]]
            text = access_pattern(plan.target.tensor, pattern, offset)
            add(f"nisa.dma_copy(dst={text}, src=rows)")

    def _pace(self, access: Access, axis: int) -> str:
        stride = access.strides[axis]
        return self.scope.size(stride) if any(stride) else "1"

    def _start(self, access: Access) -> list[str]:
        terms = [self.scope.size(access.offset)] if any(access.offset) else []
        matrix = tuple(m * n for m, n in zip(self.plan.m, self.plan.n, strict=True))
        for axis, (name, stride) in enumerate(zip(self.loops.names, access.strides, strict=False)):
            if any(stride):
                count, inner = self.plan.batch[axis], self.plan.batch[axis + 1 :]
                reach = zip(*inner[:1], access.strides[axis + 1], strict=True)
                span = tuple(n * step for n, step in reach) if inner else matrix
                terms.append(times(name, self.scope.pace(stride, count, span)))
        return terms


class BlockTransposePrinter(ShortTransposePrinter):
    """Prints a transpose of many small matrices, made together."""

    def print(self) -> None:
        """The whole transpose."""
        plan, read = self.plan, self.plan.source.tensor
        rows, cols = (plan.m, read), (plan.n, f"-{read}")
        self.loops.name_sizes(read, num_rows=rows, num_cols=cols)
        self._batch(0)

    def _batch(self, level: int) -> None:
        add, plan, block = self.source.add, self.plan, self.source.block
        if level < len(plan.batch) - 2:
            with self.loops.loop(level):
                self._batch(level + 1)
            return
        dtype = f"nl.{plan.dtype.value}"
        outer, lane = self.loops.names[-2:]
        add(f"matrices = PARTITIONS // num_rows  # of {plan.source.tensor} in one tile")
        with (
            block(f"for {outer}0 in range(0, num_{outer}, matrices):"),
            block(f"for {lane}0 in range(0, num_{lane}, PARTITIONS):"),
        ):
            add(f"group = min(matrices, num_{outer} - {outer}0)")
            add(f"size = min(PARTITIONS, num_{lane} - {lane}0)")
            shape = "(group * num_rows, size * num_cols)"
            add(f"tile = nl.ndarray({shape}, dtype={dtype}, buffer=nl.sbuf)")
            pace, step = (self._pace(plan.source, axis) for axis in (-2, -1))
            pattern = [[pace, "group * num_rows"], [step, "size * num_cols"]]
            text = access_pattern(plan.source.tensor, pattern, self._start(plan.source))
            add(f"nisa.dma_copy(dst=tile, src={text})")
            self.source.note("Each partition takes what follows each other in the result.")
            shape = "(size, group, num_cols, num_rows)"
            add(f"runs = nl.ndarray({shape}, dtype={dtype}, buffer=nl.sbuf)")
            with block("for c0 in range(0, num_cols, BANK // PARTITIONS):"):
                add("count = min(BANK // PARTITIONS, num_cols - c0)")
                shape = "(size, count, group * num_rows)"
                add(f"turned = nl.ndarray({shape}, dtype={dtype}, buffer=nl.psum)")
                with block("for c in range(count):"):
                    add("nisa.nc_transpose(dst=turned[:, c, :], data=tile[:, c0 + c :: num_cols])")
                add("dst = runs[:, :, c0 : c0 + count, :].permute((0, 2, 1, 3))")
                add("src = turned.reshape_dim(2, (group, num_rows))")
                self.source.note("Two engines empty PSUM by turns.")
                with block("if c0 // (BANK // PARTITIONS) % 2:"):
                    add("nisa.activation(dst=dst, op=nl.copy, data=src)")
                with block("else:"):
                    add("nisa.tensor_copy(dst=dst, src=src)")
            # The target's axes are: loops, matrices, lanes, columns, rows.
            paces = [self._pace(plan.target, axis) for axis in (-3, -4, -2, -1)]
            counts = ("size", "group", "num_cols", "num_rows")
            pattern = [list(pair) for pair in zip(paces, counts, strict=True)]
            text = access_pattern(plan.target.tensor, pattern, self._start(plan.target))
            add(f"nisa.dma_copy(dst={text}, src=runs)")

    def _start(self, access: Access) -> list[str]:
        terms = [self.scope.size(access.offset)] if any(access.offset) else []
        *loops, outer, lane = self.loops.names
        for name, stride in zip([*loops, f"{outer}0", f"{lane}0"], access.strides, strict=False):
            if any(stride):
                terms.append(times(name, self.scope.size(stride)))
        return terms
