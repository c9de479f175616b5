"""The functions of a printed sum over a decaying state, as text.

Law: heads lie behind each other in each partition, as many as a PSUM bank holds for every product.
"""

from __future__ import annotations

LOAD_STEPS = '''def load_steps(src, width):
    """Loads src [K, head, step], with zeros behind its last step."""
    rows, count, size = src.shape
    tile = nl.ndarray((rows, count, width), dtype=nl.float32, buffer=nl.sbuf)
    if size < width:
        nisa.memset(dst=tile, value=0.0)
    nisa.dma_copy(dst=tile[:, :, :size], src=src)
    return tile
'''
TURN_STEPS = '''def turn_steps(tile):
    """The transpose [step, head, K] of a tile [K, head, step]."""
    depth, count, width = tile.shape
    turned = nl.ndarray((width, count, depth), dtype=nl.float32, buffer=nl.psum)
    for h in range(count):
        nisa.nc_transpose(dst=turned[:, h, :], data=tile[:, h, :])
    kept = nl.ndarray((width, count, depth), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=kept, op=nl.copy, data=turned)
    return kept
'''
READ_OWN = '''def read_own(key, read, value, bonus, ones):
    """What each step reads of its own part."""
    depth, count, width = key.shape
    weighed = nl.ndarray(key.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(
        dst=weighed, data1=key, data2=read, op=nl.multiply, engine=nisa.engine.gpsimd
    )
    if bonus is not None:
        nisa.tensor_tensor(
            dst=weighed,
            data1=weighed,
            data2=bonus.broadcast(2, width),
            op=nl.multiply,
            engine=nisa.engine.gpsimd,
        )
    # Ones add up over the keys, on the partitions of all values.
    shares = nl.ndarray(value.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(
        dst=shares,
        stationary=ones[:depth, : value.shape[0]],
        moving=weighed,
        is_stationary_onezero=True,
    )
    own = nl.ndarray(value.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=own, data1=value, data2=shares, op=nl.multiply)
    return own
'''
READ_PAIRS = '''def read_pairs(group, mask, half):
    """Adds what second halves of runs read of the first; then a run is half of the next."""
    total, key, read, left, values = group
    depth, count, width = key.shape
    runs = width // (2 * half)
    shape = (depth, count, runs, 2, half)
    key_runs, read_runs = key.reshape(shape), read.reshape(shape)
    total_runs = total.reshape((total.shape[0], count, runs, 2, half))
    product = nl.ndarray((width, count, runs, half), dtype=nl.float32, buffer=nl.psum)
    for h in range(count):
        nisa.nc_matmul(
            dst=product[:, h], stationary=key[:, h, :], moving=read_runs[:, h, :, 1, :]
        )
    weights = nl.ndarray((width, count, runs, half), dtype=nl.float32, buffer=nl.sbuf)
    own = mask.reshape((PARTITIONS, PARTITIONS // (2 * half), 2, half))[:width, :runs, 1, :]
    nisa.tensor_tensor(
        dst=weights,
        data1=product,
        data2=own.expand_dim(1).broadcast(1, count),
        op=nl.multiply,
    )
    for h in range(count):
        nisa.nc_matmul(
            dst=total_runs[:, h, :, 1, :],
            stationary=values[:, h, :],
            moving=weights[:, h],
            accumulate=True,
        )
    left_runs = left.reshape((depth, count, runs, 2))
    reads, keys = read_runs[:, :, :, 1, :], key_runs[:, :, :, 0, :]
    nisa.tensor_tensor(
        dst=reads,
        data1=reads,
        data2=left_runs[:, :, :, 0:1].broadcast(3, half),
        op=nl.multiply,
        engine=nisa.engine.gpsimd,
    )
    nisa.tensor_tensor(
        dst=keys, data1=keys, data2=left_runs[:, :, :, 1:2].broadcast(3, half), op=nl.multiply
    )
    left_after = nl.ndarray((depth, count, runs), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(
        dst=left_after, data1=left_runs[:, :, :, 0], data2=left_runs[:, :, :, 1], op=nl.multiply
    )
    return total, key, read, left_after, values
'''
READ_STATE = '''def read_state(group, state):
    """Adds what all steps read of the state that they find, and leaves that behind them."""
    total, key, read, left, values = group
    depth, count, _ = key.shape
    keys = turn_steps(key)
    added = nl.ndarray((depth, count, values.shape[2]), dtype=nl.float32, buffer=nl.psum)
    for h in range(count):
        nisa.nc_matmul(dst=added[:, h, :], stationary=keys[:, h, :], moving=values[:, h, :])
    after = nl.ndarray(added.shape, dtype=nl.float32, buffer=nl.sbuf)
    if state is None:
        nisa.tensor_copy(dst=after, src=added)
        return after
    for h in range(count):
        nisa.nc_matmul(
            dst=total[:, h, :],
            stationary=state[:, h, :],
            moving=read[:, h, :],
            accumulate=True,
        )
    kept = nl.ndarray(added.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(
        dst=kept, data1=state, data2=left.broadcast(2, values.shape[2]), op=nl.multiply
    )
    nisa.tensor_tensor(dst=after, data1=added, data2=kept, op=nl.add)
    return after
'''
HELPERS = (LOAD_STEPS, TURN_STEPS, READ_OWN, READ_PAIRS, READ_STATE)
