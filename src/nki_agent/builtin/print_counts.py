"""Prints how often each of a few whole numbers occurs: products of one-hot digits.

Law: a number is a high and a low digit. For each element, the outer product of its two one-hot
digits adds one to the place of the number in a matrix, which one PSUM bank holds for all of them.
As many elements share a product as fill the array. What a product makes of the digits of two
different elements is left out in the end.
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
        self.source.note("So many elements share a product.")
        add("together = 1")
        with self.source.block(
            f"while 2 * together * num_high <= PARTITIONS and 2 * together * {LOW} <= BANK:"
        ):
            add("together *= 2")
        add("lanes = num_high * together")
        names.tile("sums", f"(lanes, {LOW}, together)", "float32", "psum")
        with self.source.block(f"for start, rows, each in row_blocks(num_put, {CHUNK}):"):
            add("width = (each + together - 1) // together * together")
            names.tile("places", "(rows, width)", "int32")
            with self.source.block("if each < width:"):
                self.source.note("No high digit is as large.")
                add(f"nisa.memset(dst=places, value=num_high * {LOW})")
            pattern = "pattern=[[each, rows], [1, each]], offset=start"
            add(f"nisa.dma_copy(dst=places[:, :each], src={index}.ap({pattern}))")
            self._number("high", "op0=nl.right_shift", LOW_BITS)
            self._number("low", "op0=nl.bitwise_and", LOW - 1)
            self._digits("high", "num_high")
            self._digits("low", str(LOW))
            with self.source.block("for e in range(0, width, together):"):
                add(
                    "nisa.nc_matmul(dst=sums, stationary=high_digits[:, :, e : e + together],"
                    " moving=low_digits[:, :, e : e + together])"
                )
        self._fold()
        self._store()

    def _number(self, name: str, operation: str, operand: int) -> None:
        """One of two digits; both are made before either is used, so that no engine waits."""
        add, names = self.source.add, self.names
        names.tile(f"{name}_bits", "(rows, width)", "int32")
        add(f"nisa.tensor_scalar(dst={name}_bits, data=places, {operation}, operand0={operand})")
        names.tile(name, "(rows, width)", "bfloat16")
        add(f"nisa.activation(dst={name}, op=nl.copy, data={name}_bits)")

    def _digits(self, name: str, count: str) -> None:
        """One-hot digits, elements innermost, so that 16-bit steps go at full speed."""
        self.names.tile(f"{name}_digits", f"(rows, {count}, width)", "bfloat16")
        with self.source.block(f"for d in range({count}):"):
            self.source.add(
                f"nisa.tensor_scalar(dst={name}_digits[:, d, :], data={name}, op0=nl.equal,"
                " operand0=float(d))"
            )

    def _fold(self) -> None:
        """Adds up the products of one element's own digits, over all that shared a product."""
        add, names = self.source.add, self.names
        add("shift = together.bit_length() - 1")
        self.source.note("Row and column of one element: numbers alike modulo `together`.")
        names.tile("distances", f"(lanes, {LOW}, together)", "int32")
        pattern = f"pattern=[[0, {LOW}], [1, together]]"
        add(f"nisa.iota(dst=distances, {pattern}, offset=lanes, channel_multiplier=-1)")
        names.tile("remainders", f"(lanes, {LOW}, together)", "int32")
        add(
            "nisa.tensor_scalar(dst=remainders, data=distances, op0=nl.bitwise_and,"
            " operand0=together - 1)"
        )
        names.tile("own", f"(lanes, {LOW}, together)", "float32")
        add(
            "nisa.scalar_tensor_tensor(dst=own, data=remainders, op0=nl.equal, operand0=0.0,"
            " op1=nl.multiply, operand1=sums)"
        )
        names.tile("counted", f"(lanes, {LOW})", "float32")
        add("nisa.tensor_reduce(dst=counted, op=nl.add, data=own, axis=2)")
        self.source.note("Which high digit a row belongs to, as the row's number divided.")
        names.tile("numbers", "(lanes, num_high)", "int32")
        pattern = "pattern=[[-together, num_high]]"
        add(f"nisa.iota(dst=numbers, {pattern}, offset=lanes, channel_multiplier=1)")
        names.tile("quotients", "(lanes, num_high)", "int32")
        add("nisa.tensor_scalar(dst=quotients, data=numbers, op0=nl.right_shift, operand0=shift)")
        names.tile("is_of_digit", "(lanes, num_high)", "float32")
        add(
            "nisa.tensor_scalar(dst=is_of_digit, data=quotients, op0=nl.equal,"
            " operand0=float(num_high))"
        )
        names.tile("folded", f"(num_high, {LOW})", "float32", "psum")
        add("nisa.nc_matmul(dst=folded, stationary=is_of_digit, moving=counted)")

    def _store(self) -> None:
        plan, add = self.plan, self.source.add
        assert not isinstance(plan.rows, Matrix)
        assert not isinstance(plan.table, Matrix)
        assert plan.rows is not None
        self.names.tile("tile", f"(num_high, {LOW})", plan.out.dtype.value)
        add(
            "nisa.tensor_scalar(dst=tile, data=folded, op0=nl.multiply,"
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
