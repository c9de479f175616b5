"""Kernel for the task `matmul`, by the built-in author of nki-agent."""

import nki
import nki.isa as nisa
import nki.language as nl

PARTITIONS = 128
BANK = 512  # float32 columns of one PSUM bank


def load_blocks(dst, src):
    """Loads src [K, N] into dst [128, block of K, N]: K runs along the partitions."""
    depth = src.shape[0]
    for k0 in range(0, depth, PARTITIONS):
        size = min(PARTITIONS, depth - k0)
        nisa.dma_copy(dst=dst[:size, k0 // PARTITIONS, :], src=src[k0 : k0 + size, :])


def turn(dst, tile):
    """Writes the transpose of tile [M, K] into dst [128, block of K, M]."""
    rows, depth = tile.shape
    whole = depth // PARTITIONS
    # Four transposes share a PSUM bank and leave it in one copy.
    for k0 in range(0, whole, BANK // PARTITIONS):
        count = min(BANK // PARTITIONS, whole - k0)
        turned = nl.ndarray((PARTITIONS, count, rows), dtype=tile.dtype, buffer=nl.psum)
        for k in range(count):
            start = (k0 + k) * PARTITIONS
            nisa.nc_transpose(dst=turned[:, k, :], data=tile[:, start : start + PARTITIONS])
        nisa.tensor_copy(dst=dst[:, k0 : k0 + count, :], src=turned)
    size = depth % PARTITIONS
    if size:
        turned = nl.ndarray((size, rows), dtype=tile.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=tile[:, whole * PARTITIONS :])
        nisa.tensor_copy(dst=dst[:size, whole, :], src=turned)


def load_transposed(dst, src):
    """Loads src [M, K] and turns it on the Tensor Engine into dst [128, block of K, M]."""
    num_rows, depth = src.shape
    for r0 in range(0, num_rows, PARTITIONS):
        rows = min(PARTITIONS, num_rows - r0)
        tile = nl.ndarray((rows, depth), dtype=src.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=src[r0 : r0 + rows, :])
        turn(dst[:, :, r0 : r0 + rows], tile)


def multiply(y_part, x_turned, w_kept, depth):
    """One tile of rows against all columns; what follows leaves PSUM with it."""
    rows, num_cols = x_turned.shape[2], w_kept.shape[2]
    for n0 in range(0, num_cols, BANK):
        cols = min(BANK, num_cols - n0)
        product = nl.ndarray((rows, cols), dtype=nl.float32, buffer=nl.psum)
        for k in range(x_turned.shape[1]):
            size = min(PARTITIONS, depth - k * PARTITIONS)
            nisa.nc_matmul(
                dst=product,
                stationary=x_turned[:size, k, :],
                moving=w_kept[:size, k, n0 : n0 + cols],
            )
        y_tile = nl.ndarray((rows, cols), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=y_tile, src=product)
        nisa.dma_copy(dst=y_part[:, n0 : n0 + cols], src=y_tile)


@nki.jit
def kernel(a, b):
    y = nl.ndarray((a.shape[0], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    num_rows = a.shape[0]
    depth = a.shape[1]
    num_cols = b.shape[1]
    k_tiles = (depth + PARTITIONS - 1) // PARTITIONS
    # The next rows are turned before these are multiplied.
    ready = []
    for r0 in range(0, num_rows, PARTITIONS):
        rows = min(PARTITIONS, num_rows - r0)
        x_turned = nl.ndarray((PARTITIONS, k_tiles, rows), dtype=nl.float32, buffer=nl.sbuf)
        load_transposed(x_turned, a[r0 : r0 + rows, :])
        if r0 == 0:
            # All of b stays in SBUF: [K, block of K, N].
            w_kept = nl.ndarray((PARTITIONS, k_tiles, num_cols), dtype=nl.float32, buffer=nl.sbuf)
            load_blocks(w_kept, b)
        ready.append((y[r0 : r0 + rows, :], x_turned, w_kept, depth))
        if len(ready) > 1:
            multiply(*ready.pop(0))
    for block in ready:
        multiply(*block)
    return y
