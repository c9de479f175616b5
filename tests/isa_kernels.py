"""Kernels on the surface `isa`, as text: instructions at addresses of their own."""

LEAKY_RELU = """\
import nki
import nki.isa as nisa
import nki.language as nl

ROWS, COLUMNS, ITEM = 128, 2048, 4
SCALED = 2 * COLUMNS * ITEM


@nki.jit
def kernel(x):
    rows, columns = x.shape
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    turn = 0
    for row in range(0, rows, ROWS):
        size = min(ROWS, rows - row)
        for column in range(0, columns, COLUMNS):
            width = min(COLUMNS, columns - column)
            place = turn % 2 * COLUMNS * ITEM
            turn += 1
            part = (slice(row, row + size), slice(column, column + width))
            tile = nl.ndarray((size, width), nl.float32, buffer=nl.sbuf, address=(0, place))
            low = nl.ndarray((size, width), nl.float32, buffer=nl.sbuf, address=(0, SCALED + place))
            nisa.dma_copy(dst=tile, src=x[part])
            nisa.tensor_scalar(dst=low, data=tile, op0=nl.multiply, operand0=0.01)
            nisa.tensor_tensor(dst=low, data1=tile, data2=low, op=nl.maximum)
            nisa.dma_copy(dst=y[part], src=low)
    return y
"""
"""For `l1-leaky-relu-2d`: two pairs of tiles in turn."""

MATMUL = """\
import nki
import nki.isa as nisa
import nki.language as nl

P, N, ITEM, BANK = 128, 512, 2, 2048
LEFT, RIGHT, RESULT = 0, 2 * P * ITEM, 2 * (P + N) * ITEM


@nki.jit
def kernel(left, right):
    depth, rows = left.shape
    columns = right.shape[1]
    y = nl.ndarray((rows, columns), dtype=left.dtype, buffer=nl.shared_hbm)
    turn = 0
    bank = 0
    for row in range(0, rows, P):
        size = min(P, rows - row)
        for column in range(0, columns, N):
            width = min(N, columns - column)
            total = nl.ndarray(
                (size, width), nl.float32, buffer=nl.psum, address=(0, bank % 8 * BANK)
            )
            for k in range(0, depth, P):
                part = min(P, depth - k)
                at = turn % 2
                turn += 1
                a = nl.ndarray(
                    (part, size), nl.bfloat16, buffer=nl.sbuf, address=(0, LEFT + at * P * ITEM)
                )
                b = nl.ndarray(
                    (part, width), nl.bfloat16, buffer=nl.sbuf, address=(0, RIGHT + at * N * ITEM)
                )
                nisa.dma_copy(dst=a, src=left[k:k + part, row:row + size])
                nisa.dma_copy(dst=b, src=right[k:k + part, column:column + width])
                nisa.nc_matmul(dst=total, stationary=a, moving=b)
            place = RESULT + bank % 2 * N * ITEM
            bank += 1
            out = nl.ndarray((size, width), nl.bfloat16, buffer=nl.sbuf, address=(0, place))
            nisa.tensor_copy(dst=out, src=total)
            nisa.dma_copy(dst=y[row:row + size, column:column + width], src=out)
    return y
"""
"""For `l1-matmul-transa-bf16`: operands in two places each, results in all banks in turn."""
