"""Softmax of each row, for any number of rows and any row that fits SBUF.

Each tile holds 128 rows, one in each partition. The Vector Engine finds the row maxima, the Scalar
Engine computes the exponentials and their row sums in one pass, the Vector Engine divides. A tile
is divided only after the next one's maxima are found: engines work through their instructions in
order, and so the Vector Engine has work while the Scalar Engine is busy.
"""

import nki
import nki.isa as nisa
import nki.language as nl

PARTITIONS = 128


def exponentials(x_part):
    """exp(x - row maximum) in float32, and its row sums."""
    rows, num_cols = x_part.shape
    tile = nl.ndarray((rows, num_cols), dtype=x_part.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x_part)
    # Negated, so that it is the bias of the exponential, which then never overflows.
    neg_max = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=neg_max, op=nl.maximum, data=tile, axis=1, negate=True)
    exps = nl.ndarray((rows, num_cols), dtype=nl.float32, buffer=nl.sbuf)
    row_sum = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(
        dst=exps, op=nl.exp, data=tile, reduce_op=nl.add, reduce_res=row_sum, bias=neg_max
    )
    return exps, row_sum


def divide(out_part, exps, row_sum):
    """exps / row_sum: one division a row, one multiplication an element."""
    rows, num_cols = exps.shape
    inverse = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(dst=inverse, data=row_sum)
    result = nl.ndarray((rows, num_cols), dtype=out_part.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=result, data=exps, op0=nl.multiply, operand0=inverse)
    nisa.dma_copy(dst=out_part, src=result)


@nki.jit
def kernel(x):
    num_rows, num_cols = x.shape
    out = nl.ndarray((num_rows, num_cols), dtype=x.dtype, buffer=nl.shared_hbm)
    waiting = []
    for r0 in range(0, num_rows, PARTITIONS):
        rows = min(PARTITIONS, num_rows - r0)
        exps, row_sum = exponentials(x[r0 : r0 + rows, :])
        for tile in waiting:
            divide(*tile)
        waiting = [(out[r0 : r0 + rows, :], exps, row_sum)]
    for tile in waiting:
        divide(*tile)
    return out
