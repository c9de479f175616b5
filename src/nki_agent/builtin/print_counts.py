"""Prints how often each of a few whole numbers occurs: products of one-hot digits.

Law: a number is a high and a low digit. For each element, the outer product of its two one-hot
digits adds one to the place of the number in a matrix, which one PSUM bank holds for all of them.
"""

from __future__ import annotations

from nki_agent.builtin.plan import Matrix, PickPlan
from nki_agent.builtin.print_picks import CHUNK, Names
from nki_agent.builtin.text import Scope, Source

LOW = 16
"""Values of a low digit: the columns of the matrix."""
LOW_BITS = 4
LANES = 128


def counts_alone(plan: PickPlan) -> bool:
    """Whether a stage adds the same number for each index, to single elements that start alike."""
    numbers = not isinstance(plan.rows, Matrix) and not isinstance(plan.table, Matrix)
    is_column = all(n == 1 for n in plan.out.cols)
    few = max(plan.out.rows) <= LOW * LANES
    return plan.function == "add_rows" and numbers and is_column and few


class CountPrinter:
    """Prints one PickPlan that only counts into a function body."""

    def __init__(self, plan: PickPlan, source: Source, scope: Scope) -> None:
        self.plan = plan
        self.source = source
        self.scope = scope
        self.names = Names(source, scope)

    def print(self) -> None:
        """The whole stage."""
        plan, add, names = self.plan, self.source.add, self.names
        names.size("num_put", plan.index.rows, plan.index)
        names.size("num_rows", plan.out.rows, plan.out)
        index = names.view(plan.index, "num_put", "1")
        self.source.note(f"A number is high * {LOW} + low.")
        add(f"num_high = (num_rows + {LOW - 1}) // {LOW}")
        names.tile("sums", f"(num_high, {LOW})", "float32", "psum")
        with self.source.block(f"for start, rows, each in row_blocks(num_put, {CHUNK}):"):
            names.tile("places", "(rows, each)", "int32")
            pattern = "pattern=[[each, rows], [1, each]], offset=start"
            add(f"nisa.dma_copy(dst=places, src={index}.ap({pattern}))")
            self._digit("high", "num_high", "op0=nl.right_shift", LOW_BITS)
            self._digit("low", str(LOW), "op0=nl.bitwise_and", LOW - 1)
            with self.source.block("for e in range(each):"):
                add(
                    "nisa.nc_matmul(dst=sums, stationary=high_digits[:, :, e],"
                    " moving=low_digits[:, :, e])"
                )
        self._store()

    def _digit(self, name: str, count: str, operation: str, operand: int) -> None:
        """One-hot digits, elements innermost, so that 16-bit steps go at full speed."""
        add, names = self.source.add, self.names
        names.tile(f"{name}_bits", "(rows, each)", "int32")
        add(f"nisa.tensor_scalar(dst={name}_bits, data=places, {operation}, operand0={operand})")
        names.tile(name, "(rows, each)", "bfloat16")
        add(f"nisa.tensor_copy(dst={name}, src={name}_bits)")
        names.tile(f"{name}_digits", f"(rows, {count}, each)", "bfloat16")
        with self.source.block(f"for d in range({count}):"):
            add(
                f"nisa.tensor_scalar(dst={name}_digits[:, d, :], data={name}, op0=nl.equal,"
                " operand0=float(d))"
            )

    def _store(self) -> None:
        plan, add = self.plan, self.source.add
        assert not isinstance(plan.rows, Matrix)
        assert not isinstance(plan.table, Matrix)
        assert plan.rows is not None
        self.names.tile("tile", f"(num_high, {LOW})", plan.out.dtype.value)
        add(
            "nisa.tensor_scalar(dst=tile, data=sums, op0=nl.multiply,"
            f" operand0={self.scope.number(plan.rows)}, op1=nl.add,"
            f" operand1={self.scope.number(plan.table)})"
        )
        out = self.names.view(plan.out, "num_rows", "1")
        add(f"whole = num_rows // {LOW}")
        add(f"rest = num_rows % {LOW}")
        with self.source.block("if whole:"):
            add(f"part = {out}[: whole * {LOW}, :].reshape((whole, {LOW}))")
            add("nisa.dma_copy(dst=part, src=tile[:whole, :])")
        with self.source.block("if rest:"):
            add(f"part = {out}[whole * {LOW} :, :].reshape((1, rest))")
            add("nisa.dma_copy(dst=part, src=tile[whole:, :rest])")
