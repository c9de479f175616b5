"""Prints a depthwise convolution: its taps shared out to the Tensor and the Vector Engine.

Law: the Tensor Engine multiplies by a diagonal matrix for each of its taps; then the Vector Engine
adds the others to the sum where it lies, in PSUM.
"""

from __future__ import annotations

from nki_agent.builtin.print_convolution import ConvolutionPrinter
from nki_agent.builtin.text import Source
from nki_agent.builtin.window_text import COLUMNS, LINES, plus, scaled


class DepthwisePrinter(ConvolutionPrinter):
    """Prints one depthwise ConvolutionPlan into a function body."""

    def _more_operands(self) -> list[str]:
        return ["columns"]

    def _unpack_block(self) -> list[str]:
        return ["o0", "weights", "columns", *self._kept(0)]

    def _load_weights(self) -> str:
        rows = "weight_rows[o0 : o0 + rows, :]"
        return f"weights, columns = {self.prefix}load_weights({rows}, steps)"

    def _flat_tap(self) -> str:
        """The place of a step's tap among the weights of a channel."""
        lines, columns = self.spans[LINES].kernel, self.spans[COLUMNS].kernel
        return plus(
            scaled(self._tap("p"), lines * columns), scaled(self._tap("k"), columns), self._tap("j")
        )

    def _define_load_weights(self) -> None:
        body = Source(depth=1)
        add, first = body.add, self.plan.tensor_taps
        add(f'"""weight [C, taps] in float32, and the first {first} steps as diagonal matrices."""')
        add("channels, taps = weight.shape")
        add("columns = nl.ndarray((channels, taps), dtype=nl.float32, buffer=nl.sbuf)")
        add("nisa.dma_copy(dst=columns, src=weight)")
        add("ones = nl.ndarray((channels, channels), dtype=nl.float32, buffer=nl.sbuf)")
        add("nisa.memset(dst=ones, value=1.0)")
        add("eye = nl.ndarray((channels, channels), dtype=nl.float32, buffer=nl.sbuf)")
        add(
            "nisa.affine_select(dst=eye, pattern=[[-1, channels]], channel_multiplier=1,"
            " on_true_tile=ones, on_false_value=0.0)"
        )
        add(
            f"diagonals = nl.ndarray((channels, {first}, channels), dtype=weight.dtype,"
            " buffer=nl.sbuf)"
        )
        with body.block(f"for s in range({first}):"):
            add(self._unpack())
            add(f"tap = {self._flat_tap()}")
            add(
                "nisa.tensor_scalar(dst=diagonals[:, s, :], data=eye, op0=nl.multiply,"
                " operand0=columns[:, tap : tap + 1])"
            )
        add("return diagonals, columns")
        self._define("load_weights", ["weight", "steps"], body)

    def _add_step(self, body: Source, part: str, own: str) -> None:
        add, first = body.add, self.plan.tensor_taps
        product = f"nisa.nc_matmul(dst={part}, stationary=weights[:, s, :], moving={own})"
        if first == self.taps:
            add(product)
            return
        with body.block(f"if s < {first}:"):
            add(product)
        with body.block("else:"):
            add(f"tap = {self._flat_tap()}")
            add(f"part = {part}")
            add(
                f"nisa.scalar_tensor_tensor(dst=part, data={own}, op0=nl.multiply,"
                " operand0=columns[:, tap : tap + 1], op1=nl.add, operand1=part)"
            )
