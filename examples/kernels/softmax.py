"""Softmax of each row, for any number of rows and any row that fits SBUF.

Each tile holds 128 rows, one in each partition. The Vector Engine finds the row maxima; the Scalar
Engine computes the exponentials and their row sums in one pass; the Vector Engine scales.
"""

import nki
import nki.isa as nisa
import nki.language as nl

PARTITIONS = 128


@nki.jit
def kernel(x):
    num_rows, num_cols = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for r0 in range(0, num_rows, PARTITIONS):
        rows = min(PARTITIONS, num_rows - r0)
        tile = nl.ndarray((rows, num_cols), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[r0 : r0 + rows, :])

        # Negated, so that it is the bias of the exponential: exp(x - max) never overflows.
        neg_max = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=neg_max, op=nl.maximum, data=tile, axis=1, negate=True)

        exps = nl.ndarray((rows, num_cols), dtype=nl.float32, buffer=nl.sbuf)
        row_sum = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(
            dst=exps, op=nl.exp, data=tile, reduce_op=nl.add, reduce_res=row_sum, bias=neg_max
        )

        # One division a row, then a multiplication an element.
        inverse = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=inverse, data=row_sum)
        result = nl.ndarray((rows, num_cols), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=result, data=exps, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=out[r0 : r0 + rows, :], src=result)
    return out
