"""Text of the functions that load rows of all heads and take the columns of one."""

LOAD_HEADS = '''def load_heads(src):
    """Loads rows src [M, N], which hold all heads, into tiles [128, tile of M, N]."""
    num_rows, cols = src.shape
    num_tiles = (num_rows + PARTITIONS - 1) // PARTITIONS
    tiles = nl.ndarray((PARTITIONS, num_tiles, cols), dtype=src.dtype, buffer=nl.sbuf)
    load_blocks(tiles, src)
    return tiles
'''
TURN_HEAD = '''def turn_head(dst, tiles, start, depth):
    """Turns the columns of one head in tiles [128, tile of M, N] into dst [128, block of K, M]."""
    num_rows = dst.shape[2]
    for k0 in range(0, depth, PARTITIONS):
        size = min(PARTITIONS, depth - k0)
        cols = tiles[:, :, start + k0 : start + k0 + size]
        # Tiles that are turned share a PSUM bank and leave it in one copy.
        for g0 in range(0, num_rows, BANK):
            group = min(BANK, num_rows - g0)
            turned = nl.ndarray((size, 1, group), dtype=tiles.dtype, buffer=nl.psum)
            for r0 in range(0, group, PARTITIONS):
                rows = min(PARTITIONS, group - r0)
                tile = cols[:rows, (g0 + r0) // PARTITIONS, :]
                nisa.nc_transpose(dst=turned[:, 0, r0 : r0 + rows], data=tile)
            block = k0 // PARTITIONS
            nisa.tensor_copy(dst=dst[:size, block : block + 1, g0 : g0 + group], src=turned)
'''
TAKE_HEAD = '''def take_head(dst, tiles, start, num_rows):
    """Copies the columns of one head to dst [128, tile of M, columns]; GpSimd has time."""
    whole, rest = num_rows // PARTITIONS, num_rows % PARTITIONS
    cols = tiles[:, :, start : start + dst.shape[2]]
    gpsimd = nisa.engine.gpsimd
    if whole:
        nisa.tensor_copy(dst=dst[:, :whole, :], src=cols[:, :whole, :], engine=gpsimd)
    if rest:
        nisa.tensor_copy(dst=dst[:rest, whole, :], src=cols[:rest, whole, :], engine=gpsimd)
'''
LOAD_PAGES = '''def load_pages(pages, places):
    """Loads pages [P, Z, N] by their numbers [1, U], one after the other, into tiles as above."""
    length, cols = pages.shape[1:]
    num_rows = places.shape[1] * length
    num_tiles = (num_rows + PARTITIONS - 1) // PARTITIONS
    tiles = nl.ndarray((PARTITIONS, num_tiles, cols), dtype=pages.dtype, buffer=nl.sbuf)
    for u in range(places.shape[1]):
        page = pages.select(0, places[:, u : u + 1])
        done = 0
        while done < length:
            # A page may end in another tile than it begins.
            tile, first = (u * length + done) // PARTITIONS, (u * length + done) % PARTITIONS
            rows = min(PARTITIONS - first, length - done)
            nisa.dma_copy(
                dst=tiles[first : first + rows, tile, :], src=page[done : done + rows, :]
            )
            done += rows
    return tiles
'''
LOAD_BEHIND = '''def load_behind(dst, src, start):
    """Loads rows src [M, N] as rows from start on into dst [128, tile of all rows, N]."""
    done = 0
    while done < src.shape[0]:
        tile, first = (start + done) // PARTITIONS, (start + done) % PARTITIONS
        rows = min(PARTITIONS - first, src.shape[0] - done)
        nisa.dma_copy(dst=dst[first : first + rows, tile, :], src=src[done : done + rows, :])
        done += rows
'''
