"""The functions of a printed delta rule, as text.

Law: heads lie behind each other in each partition, as many as a PSUM bank holds for every product,
so that one step of an engine takes all of them.
"""

from __future__ import annotations

LIST_HALVES = '''def list_halves(num_steps):
    """Masks [128, run, half, step]: 1 where a row is in the first and a column in the second half.

    Runs are of 2, 4, 8 … steps, until one holds all steps of a tile.
    """
    halves = []
    size = 1
    while size < min(PARTITIONS, num_steps):
        runs = PARTITIONS // (2 * size)
        mask = nl.ndarray((PARTITIONS, runs, 2, size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=mask[:, :, 0, :], value=0.0, engine=nisa.engine.gpsimd)
        nisa.memset(dst=mask[:, :, 1, :], value=1.0, engine=nisa.engine.gpsimd)
        for sign, offset in ((1, 0), (-1, size - 1)):
            nisa.affine_select(
                dst=mask[:, :, 1, :],
                pattern=[[-2 * sign * size, runs], [0, size]],
                channel_multiplier=sign,
                offset=offset,
                on_true_tile=mask[:, :, 1, :],
                on_false_value=0.0,
                cmp_op=nl.greater_equal,
            )
        halves.append(mask.reshape((PARTITIONS, PARTITIONS)))
        size *= 2
    return halves
'''
TURN_HEADS = '''def turn_heads(tile):
    """The transpose [K, head, step] of a tile [step, head, K]."""
    rows, count, depth = tile.shape
    turned = nl.ndarray((depth, count, rows), dtype=nl.float32, buffer=nl.psum)
    for h in range(count):
        nisa.nc_transpose(dst=turned[:, h, :], data=tile[:, h, :])
    kept = nl.ndarray((depth, count, rows), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=kept, op=nl.copy, data=turned)
    return kept
'''
FIND_SHARES = '''def find_shares(share, decay, identity, ones):
    """What is left of each step's share at each later step, [step, head, later step].

    And what is left of the state, along the steps and as a column of them.
    """
    rows, count = share.shape
    shares = nl.ndarray((rows, count, rows), dtype=nl.float32, buffer=nl.sbuf)
    decays = nl.ndarray((rows, count, rows), dtype=nl.float32, buffer=nl.sbuf)
    for h in range(count):
        for diagonal, column in ((shares, share), (decays, decay)):
            nisa.activation(
                dst=diagonal[:, h, :],
                op=nl.copy,
                data=identity[:rows, :rows],
                scale=column[:, h : h + 1],
            )
    # Ones add each diagonal up: its numbers in a row, on all partitions.
    spread = nl.ndarray((PARTITIONS, count, rows), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(
        dst=spread, stationary=ones[:rows, :], moving=decays, is_stationary_onezero=True
    )
    left = nl.ndarray((rows, count, rows), dtype=nl.float32, buffer=nl.sbuf)
    left_state = nl.ndarray((PARTITIONS, count, rows), dtype=nl.float32, buffer=nl.sbuf)
    column = nl.ndarray((rows, count), dtype=nl.float32, buffer=nl.psum)
    for h in range(count):
        nisa.tensor_tensor_scan(
            dst=left[:, h, :],
            data0=spread[:rows, h, :],
            data1=shares[:, h, :],
            initial=0.0,
            op0=nl.multiply,
            op1=nl.add,
        )
        nisa.tensor_tensor_scan(
            dst=left_state[:, h, :],
            data0=spread[:, h, :],
            data1=ones[:, :rows],
            initial=1.0,
            op0=nl.multiply,
            op1=nl.multiply,
        )
        nisa.nc_matmul(
            dst=column[:, h : h + 1], stationary=left_state[:1, h, :], moving=ones[:1, :1]
        )
    left_column = nl.ndarray((rows, count), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=left_column, src=column)
    return left, left_state, left_column.expand_dim(2)
'''
WEIGH_KEYS = '''def weigh_keys(key_turned, turned, left, width):
    """How much of each step's error reaches a later key or query, [step, head, later step]."""
    rows, count, _ = left.shape
    product = nl.ndarray((rows, count, rows), dtype=nl.float32, buffer=nl.psum)
    for h in range(count):
        nisa.nc_matmul(
            dst=product[:, h, :], stationary=key_turned[:, h, :], moving=turned[:, h, :]
        )
    weights = nl.ndarray((width, count, width), dtype=nl.float32, buffer=nl.sbuf)
    if rows < width:
        nisa.memset(dst=weights, value=0.0)
    nisa.tensor_tensor(dst=weights[:rows, :, :rows], data1=product, data2=left, op=nl.multiply)
    return weights
'''
INVERT_PAIRS = '''def invert_pairs(weights, mask, identity):
    """Inverses of runs of two steps, the transpose first: 1 minus the weight between them."""
    width, count, _ = weights.shape
    one = identity[:width, :width].expand_dim(1).broadcast(1, count)
    between = nl.ndarray((width, count, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(
        dst=between,
        data1=weights,
        data2=mask[:width, :width].expand_dim(1).broadcast(1, count),
        op=nl.multiply,
        engine=nisa.engine.gpsimd,
    )
    lying = nl.ndarray((width, count, width), dtype=nl.float32, buffer=nl.psum)
    for h in range(count):
        nisa.nc_transpose(dst=lying[:, h, :], data=between[:, h, :])
    turned = nl.ndarray((width, count, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(
        dst=turned, data1=one, data2=between, op=nl.subtract, engine=nisa.engine.gpsimd
    )
    inverse = nl.ndarray((width, count, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=inverse, data1=one, data2=lying, op=nl.subtract)
    return turned, inverse
'''
INVERT = '''def invert(groups, halves, identity):
    """Inverses of 1 + weights, for each group of heads: [step, head, later step].

    From the inverses of two halves of a run follows that of the run, by two products.
    """
    inverses = []
    for weights in groups:
        inverses.append(invert_pairs(weights, halves[0], identity))
    for n in range(1, len(halves)):
        # Groups take turns, so that no engine waits.
        for g in range(len(groups)):
            if 2**n < groups[g].shape[0]:
                join_halves(groups[g], halves[n], 2**n, inverses[g][0], inverses[g][1])
    return inverses
'''
JOIN_HALVES = '''def join_halves(weights, mask, half, turned, inverse):
    """Inverses of runs out of those of their halves; `turned` and `inverse` are transposes."""
    width, count, _ = weights.shape
    runs = width // (2 * half)
    between = nl.ndarray((width, count, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(
        dst=between,
        data1=weights,
        data2=mask[:width, :width].expand_dim(1).broadcast(1, count),
        op=nl.multiply,
        engine=nisa.engine.gpsimd,
    )
    inverse_runs = inverse.reshape((width, count, runs, 2, half))
    turned_runs = turned.reshape((width, count, runs, 2, half))
    product = nl.ndarray((width, count, runs, half), dtype=nl.float32, buffer=nl.psum)
    for h in range(count):
        nisa.nc_matmul(
            dst=product[:, h], stationary=between[:, h, :], moving=inverse_runs[:, h, :, 0, :]
        )
    moved = nl.ndarray((width, count, runs, 2, half), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=moved[:, :, :, 1, :], value=0.0, engine=nisa.engine.gpsimd)
    nisa.activation(dst=moved[:, :, :, 0, :], op=nl.copy, data=product)
    columns = moved.reshape((width, count, width))
    change_turned = nl.ndarray((width, count, runs, half), dtype=nl.float32, buffer=nl.psum)
    for h in range(count):
        nisa.nc_matmul(
            dst=change_turned[:, h], stationary=columns[:, h, :], moving=turned_runs[:, h, :, 1, :]
        )
    if runs > 1:
        # The inverse of all steps is needed turned alone.
        change = nl.ndarray((width, count, runs, half), dtype=nl.float32, buffer=nl.psum)
        for h in range(count):
            nisa.nc_matmul(
                dst=change[:, h], stationary=turned[:, h, :], moving=moved[:, h, :, 0, :]
            )
        nisa.tensor_tensor(
            dst=inverse_runs[:, :, :, 0, :],
            data1=inverse_runs[:, :, :, 0, :],
            data2=change,
            op=nl.subtract,
        )
    nisa.tensor_tensor(
        dst=turned_runs[:, :, :, 1, :],
        data1=turned_runs[:, :, :, 1, :],
        data2=change_turned,
        op=nl.subtract,
    )
'''
HEADS = '''def multiply_heads(stationary, moving):
    """A product for each head, in PSUM."""
    rows, count, size = stationary.shape[2], moving.shape[1], moving.shape[2]
    product = nl.ndarray((rows, count, size), dtype=nl.float32, buffer=nl.psum)
    for h in range(count):
        nisa.nc_matmul(dst=product[:, h, :], stationary=stationary[:, h, :], moving=moving[:, h, :])
    return product


def scale_heads(tile, column):
    """A tile times one number for each step and head."""
    scaled = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(
        dst=scaled, data1=tile, data2=column.broadcast(2, tile.shape[2]), op=nl.multiply
    )
    return scaled
'''
FOLLOW = '''def follow_steps(group, inverse, state):
    """What the queries of a tile of steps read, and the state behind them; None is zero."""
    key, value, key_turned, query_turned, answers, left, left_state, left_column = group
    rows, count, size = value.shape
    rest = value
    if state is not None:
        known = scale_heads(multiply_heads(key_turned, state), left_column)
        rest = nl.ndarray(value.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=rest, data1=value, data2=known, op=nl.subtract)
    errors = nl.ndarray(value.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(
        dst=errors, op=nl.copy, data=multiply_heads(inverse[:rows, :, :rows], rest)
    )
    seen = multiply_heads(answers, errors)
    last = scale_heads(errors, left[:, :, rows - 1 : rows])
    added = multiply_heads(key, last)
    out = nl.ndarray(value.shape, dtype=nl.float32, buffer=nl.sbuf)
    after = nl.ndarray(added.shape, dtype=nl.float32, buffer=nl.sbuf)
    if state is None:
        nisa.activation(dst=out, op=nl.copy, data=seen)
        nisa.tensor_copy(dst=after, src=added)
        return out, after
    read = scale_heads(multiply_heads(query_turned, state), left_column)
    nisa.tensor_tensor(dst=out, data1=seen, data2=read, op=nl.add)
    kept = scale_heads(state, left_state[: state.shape[0], :, rows - 1 : rows])
    nisa.tensor_tensor(dst=after, data1=added, data2=kept, op=nl.add)
    return out, after
'''
PREPARE = '''def prepare_steps(key, query, value, share, decay, identity, ones):
    """The weights of a tile of steps, and all that their errors are followed with."""
    rows = key.shape[0]
    width = 1
    while width < rows:
        width *= 2
    left, left_state, left_column = find_shares(share, decay, identity, ones)
    key_turned, query_turned = turn_heads(key), turn_heads(query)
    weights = weigh_keys(key_turned, key_turned, left, width)
    answers = weigh_keys(key_turned, query_turned, left, rows)
    group = (key, value, key_turned, query_turned, answers, left, left_state, left_column)
    return weights, group
'''
HELPERS = (
    *(LIST_HALVES, TURN_HEADS, FIND_SHARES, WEIGH_KEYS, JOIN_HALVES, INVERT_PAIRS, INVERT),
    *(HEADS, PREPARE, FOLLOW),
)
