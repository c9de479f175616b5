"""The functions of a printed attention whose scores are made with the keys first, as text.

Law: a group of queries is a dictionary; each function reads what it needs from it. Lines that
belong to first or last keys, to a factor, or to a score beside the others are left out elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping

_HIDE_SIDES = '''

def hide_above(product, masks, lead):
    """Hides scores with lead + col > row."""
    start = max(0, -lead)
    if lead + product.shape[1] > 1:
        hide(product[:, start:], masks, lead + start, "below")


def hide_below(product, masks, lead):
    """Hides scores with lead + col < row."""
    end = min(product.shape[1], product.shape[0] - 1 - lead)
    if end > 0:
        hide(product[:, :end], masks, lead, "above")
'''
HIDE = (
    '''def hide(product, masks, lead, visible):
    """Puts scores far below all others where `lead + col - row` is not so; masks are made once."""
    rows, cols = product.shape
    key = f"{visible} {lead} {rows} {cols}"
    if key not in masks:
        mask = nl.ndarray((rows, cols), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.memset(dst=mask, value=0.0, engine=nisa.engine.gpsimd)
        nisa.affine_select(
            dst=mask,
            pattern=[[1, cols]],
            channel_multiplier=-1,
            on_true_tile=mask,
            on_false_value=FAR_BELOW,
            cmp_op=nl.less_equal if visible == "below" else nl.greater_equal,
            offset=lead,
        )
        masks[key] = mask
    # The product with the identity adds the mask to what is in PSUM.
    nisa.nc_matmul(
        dst=product,
        stationary=masks["identity"][:rows, :rows],
        moving=masks[key],
        accumulate=True,
    )
'''
    + _HIDE_SIDES
)
HIDE_WEIGHTS = '''def hide(weights, lead, visible):
    """Takes the weights of keys away where `lead + col - row` is not as visible."""
    nisa.affine_select(
        dst=weights,
        pattern=[[1, weights.shape[1]]],
        channel_multiplier=-1,
        on_true_tile=weights,
        on_false_value=0.0,
        cmp_op=nl.less_equal if visible == "below" else nl.greater_equal,
        offset=lead,
    )
''' + _HIDE_SIDES.replace("product, masks", "weights").replace("product", "weights").replace(
    "scores", "weights"
).replace(" masks,", "")
LIST_GROUPS = '''def list_groups(num_queries, cols):
    """Starts and sizes of groups of queries whose results, of so many columns, share a bank.

    Whole blocks first, and then what is left.
    """
    most = max(1, min(BANK // cols, BANK // PARTITIONS)) * PARTITIONS
    whole = num_queries // PARTITIONS * PARTITIONS
    groups = []
    for r0 in range(0, whole, most):
        groups.append((r0, min(most, whole - r0)))
    if whole < num_queries:
        groups.append((whole, num_queries - whole))
    return groups
'''
NEXT_BANK = '''def next_bank(group):
    """The bank of PSUM that has been in use for longest."""
    bank = group["banks"].pop(0)
    group["banks"].append(bank)
    return bank
'''
_SEEN = '''def seen_keys(group, start, count):
    """The keys that some of these queries see."""
    first, end = 0, group["k"].shape[2]
    start += group["start"]
    first = max(first, start + group["first_key"])  # FIRST
    end = min(end, start + count + group["last_key"])  # LAST
    return first, end
'''
_LISTS = '''def list_banks(group):
    """The scores that a bank holds: a block of queries, the number of the bank, and its keys."""
    banks = []
    for b in range(group["q"].shape[2] // group["rows"]):
        first, end = SEEN(b * PARTITIONS, group["rows"])
        for n0 in range(first, end, BANK):
            banks.append((b, (n0 - first) // BANK, n0, min(BANK, end - n0)))
    return banks


def list_tiles(group):
    """The tiles of keys that the group sees."""
    first, end = SEEN(0, group["q"].shape[2])
    return range(first // PARTITIONS * PARTITIONS, end, PARTITIONS)
'''
_MAXIMA = '''def take_maxima(group, b, n, n0, cols):
    """The largest score of each query of a block against a bank of keys."""
    rows, r0 = group["rows"], b * PARTITIONS
    product = next_bank(group)[:rows, :cols]
    for k in range((group["depth"] + PARTITIONS - 1) // PARTITIONS):
        size = min(PARTITIONS, group["depth"] - k * PARTITIONS)
        nisa.nc_matmul(
            dst=product,
            stationary=group["q"][:size, k, r0 : r0 + rows],
            moving=group["k"][:size, k, n0 : n0 + cols],
            accumulate=k > 0,
        )
    hide_above(product, group["masks"], n0 - group["start"] - r0 - group["last_key"])  # LAST
    hide_below(product, group["masks"], n0 - group["start"] - r0 - group["first_key"])  # FIRST
    nisa.tensor_reduce(
        dst=group["maxima"][:rows, b, n : n + 1], op=nl.maximum, data=product, axis=1
    )


def negate_maxima(group):
    """The largest score of each query, negated: a column for each block, as a sum of two parts."""
    blocks = group["maxima"].shape[1]
    negated = nl.ndarray((PARTITIONS, blocks), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=negated, op=nl.maximum, data=group["maxima"], axis=2, negate=True)
    nisa.tensor_scalar(  # BESIDE
        dst=negated, data=negated, op0=nl.minimum, operand0=group["neg_beside"]  # BESIDE
    )  # BESIDE
    group["negated"] = negated
    group["offsets"] = nl.ndarray((PARTITIONS, blocks, 2), dtype=DTYPE, buffer=nl.sbuf)
    rounded = group["offsets"][:, :, 0]
    nisa.tensor_copy(dst=rounded, src=negated)  # BESIDE
    nisa.tensor_reduce(  # ALONE
        dst=rounded, op=nl.maximum, data=group["maxima"], axis=2, negate=True  # ALONE
    )  # ALONE


def split_offsets(group):
    """What rounding leaves of a large score is large itself: it is a second part."""
    rounded, rest = group["offsets"][:, :, 0], group["offsets"][:, :, 1]
    nisa.tensor_tensor(dst=rest, data1=group["negated"], data2=rounded, op=nl.subtract)
    group["offset"] = nl.ndarray(rest.shape, dtype=nl.float32, buffer=nl.sbuf)  # BESIDE
    nisa.tensor_tensor(dst=group["offset"], data1=rounded, data2=rest, op=nl.add)  # BESIDE


def place_offsets(group):
    """Lays what is added to the scores of a query beside it, where it meets ones of each key."""
    rows, count = group["rows"], group["q"].shape[2]
    turned = nl.ndarray((2, count), dtype=DTYPE, buffer=nl.psum)
    for b in range(count // rows):
        r0 = b * PARTITIONS
        nisa.nc_transpose(dst=turned[:, r0 : r0 + rows], data=group["offsets"][:rows, b, :])
    at = group["offset_row"] % PARTITIONS
    row = group["q"][at : at + 2, group["offset_row"] // PARTITIONS, :]
    nisa.activation(dst=row, op=nl.copy, data=turned)
    group["is_placed"] = True
'''
_WEIGHTS = '''def weigh_keys(group, k0):
    """Exponentials of the scores of a tile of keys, on the partitions, for the queries from c0."""
    size = min(PARTITIONS, group["k"].shape[2] - k0)
    c0, end = 0, group["q"].shape[2]
    ahead = k0 - group["start"]
    c0 = max(c0, ahead - group["last_key"]) // PARTITIONS * PARTITIONS  # LAST
    behind = ahead + size - group["first_key"]  # FIRST
    end = min(end, (behind + PARTITIONS - 1) // PARTITIONS * PARTITIONS)  # FIRST
    product = next_bank(group)[:size, : end - c0]
    depth = group["offset_row"] + 2
    for k in range((depth + PARTITIONS - 1) // PARTITIONS):
        part = min(PARTITIONS, depth - k * PARTITIONS)
        nisa.nc_matmul(
            dst=product,
            stationary=group["k"][:part, k, k0 : k0 + size],
            moving=group["q"][:part, k, c0:end],
            accumulate=k > 0,
        )
    hide_below(product, group["masks"], c0 - ahead + group["last_key"])  # MASK_LAST
    hide_above(product, group["masks"], c0 - ahead + group["first_key"])  # MASK_FIRST
    weights = nl.ndarray((size, end - c0), dtype=DTYPE, buffer=nl.sbuf)  # LARGEST
    nisa.activation(dst=weights, op=nl.exp, data=productSCALE)  # LARGEST
    return k0, c0, weights  # LARGEST
    capped = nl.ndarray((size, end - c0), dtype=nl.float32, buffer=nl.sbuf)  # CAP
    nisa.activation(dst=capped, op=nl.tanh, data=productSCALE)  # CAP
    return k0, c0, capped  # CAP
'''
_CAPPED_WEIGHTS = '''

def take_exponentials(group, k0, c0, capped):
    """What keys weigh that have capped scores; hidden ones weigh nothing."""
    weights = nl.ndarray(capped.shape, dtype=DTYPE, buffer=nl.sbuf)
    nisa.activation(dst=weights, op=nl.exp, data=capped, scale=group["cap"])
    ahead = k0 - group["start"]
    hide_below(weights, c0 - ahead + group["last_key"])  # LAST
    hide_above(weights, c0 - ahead + group["first_key"])  # FIRST
    return group, k0, c0, weights
'''
ADD_VALUES = '''def add_values(weighed, group, k0, c0, weights):
    """Adds the values of a tile of keys to the result of each block, and the weights to its sum."""
    rows, size = group["rows"], weights.shape[0]
    for c in range(0, weights.shape[1], PARTITIONS):
        nisa.nc_matmul(
            dst=group["result"][:, (c0 + c) // PARTITIONS, :],
            stationary=weights[:, c : c + rows],
            moving=group["v"][:size, k0 // PARTITIONS, :],
        )
    group["tiles_left"] -= 1
    if not group["tiles_left"]:
        weighed.append(group)
'''
_FINISH = '''def invert_sums(group):
    """One over the sums of the weights, which are the last column."""
    rows, blocks, cols = group["result"].shape
    sums = group["result"][:, :, cols - 1]
    share = nl.ndarray((rows, blocks), dtype=nl.float32, buffer=nl.sbuf)  # BESIDE
    nisa.activation(  # BESIDE
        dst=share,  # BESIDE
        op=nl.exp,  # BESIDE
        data=group["offset"][:rows],  # BESIDE
        bias=group["beside"][:rows],  # BESIDE
        scale=group["scale"],  # BESIDE_SCALE
    )  # BESIDE
    total = nl.ndarray((rows, blocks), dtype=nl.float32, buffer=nl.sbuf)  # BESIDE
    nisa.tensor_tensor(dst=total, data1=sums, data2=share, op=nl.add)  # BESIDE
    sums = total  # BESIDE
    group["inverse"] = nl.ndarray((rows, blocks), dtype=nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(dst=group["inverse"], data=sums)
    return group


def finish(group):
    """Divides by the sums, and stores."""
    rows, blocks, cols = group["result"].shape
    values, inverse = group["result"][:, :, : cols - 1], group["inverse"]
    out_tile = nl.ndarray((rows, blocks, cols - 1), dtype=DTYPE, buffer=nl.sbuf)
    for b in range(blocks):
        tile, part = out_tile[:, b, :], inverse[:, b : b + 1]
        nisa.activation(dst=tile, op=nl.copy, data=values[:, b, :], scale=part)  # LARGEST
        nisa.tensor_scalar(dst=tile, data=values[:, b, :], op0=nl.multiply, operand0=part)  # CAP
    out_part = group["out"].reshape_dim(0, (blocks, rows)).permute((1, 0, 2))
    nisa.dma_copy(dst=out_part, src=out_tile)
'''
_START_RESULT = '''def start_result(group, num_tiles):
    """Room for the result of each block and its sum."""
    if not group["is_placed"]:  # LARGEST
        split_offsets(group)  # LARGEST
        place_offsets(group)  # LARGEST
    rows, count = group["rows"], group["q"].shape[2]
    group["tiles_left"] = num_tiles
    group["result"] = nl.ndarray(
        (rows, count // rows, group["v"].shape[2]), dtype=nl.float32, buffer=nl.psum
    )
'''
ADVANCE = '''def start_maxima(group):
    """Room for the maxima of each block; those of banks that it does not see stay far below."""
    blocks = group["q"].shape[2] // group["rows"]
    num_banks = (group["k"].shape[2] + BANK - 1) // BANK
    group["maxima"] = nl.ndarray(
        (PARTITIONS, blocks, num_banks), dtype=nl.float32, buffer=nl.sbuf
    )
    nisa.memset(dst=group["maxima"], value=-1e30, engine=nisa.engine.gpsimd)
    group["is_placed"] = False


def advance(groups, waiting, weighed, inverted, new):
    """Takes the maxima of a new group, and between them weighs the oldest one that waits."""
    old = groups.pop(0) if len(groups) > 1 or (groups and not new) else {}
    tiles = list_tiles(old) if old else []
    banks = list_banks(new) if new else []
    if old:
        start_result(old, len(tiles))
    if new:
        start_maxima(new)
    steps = max(len(tiles), len(banks), 1)
    for s in range(steps):
        while inverted:
            finish(inverted.pop(0))
        while weighed:
            inverted.append(invert_sums(weighed.pop(0)))
        for bank in banks[len(banks) * s // steps : len(banks) * (s + 1) // steps]:
            take_maxima(new, *bank)
        for k0 in tiles[len(tiles) * s // steps : len(tiles) * (s + 1) // steps]:
            waiting.append((old, *weigh_keys(old, k0)))
        if groups and s == 0:
            split_offsets(groups[-1])
        if groups and s == min(2, steps - 1):
            place_offsets(groups[-1])
        # Values wait for the exponentials of tiles, and those for no values.
        while len(waiting) > TILES_BEHIND or (waiting and not old):
            add_values(weighed, *waiting.pop(0))
    if new:
        negate_maxima(new)
        groups.append(new)
'''
ADVANCE_CAPPED = '''def advance(capped, waiting, weighed, inverted, group):
    """Weighs a group: each step of a tile comes while the tiles behind it take the one before."""
    tiles = list_tiles(group) if group else [0]
    if group:
        start_result(group, len(tiles))
    for k0 in tiles:
        while inverted:
            finish(inverted.pop(0))
        while weighed:
            inverted.append(invert_sums(weighed.pop(0)))
        if group:
            capped.append((group, *cap_keys(group, k0)))
        if len(capped) > 1 or (capped and not group):
            waiting.append(take_exponentials(*capped.pop(0)))
        if len(waiting) > TILES_BEHIND or (waiting and not group):
            add_values(weighed, *waiting.pop(0))
'''


def define_start(*, capped: bool) -> str:
    """What makes room for a result."""
    return _choose(_START_RESULT, {"LARGEST": not capped})


def define_lists(*, has_first: bool, has_last: bool, capped: bool) -> list[str]:
    """What lists the parts of the scores of a group."""
    lists = _LISTS[_LISTS.index("def list_tiles") :] if capped else _LISTS
    if not (has_first or has_last):
        rows = lists.replace('SEEN(b * PARTITIONS, group["rows"])', '0, group["k"].shape[2]')
        return [rows.replace('SEEN(0, group["q"].shape[2])', '0, group["k"].shape[2]')]
    chosen = _choose(_SEEN, {"FIRST": has_first, "LAST": has_last})
    return [chosen, lists.replace("SEEN(", "seen_keys(group, ")]


def define_maxima(dtype: str, *, has_first: bool, has_last: bool, beside: bool) -> str:
    """What takes the maxima of scores."""
    text = _MAXIMA.replace("DTYPE", dtype)
    kept = {"FIRST": has_first, "LAST": has_last, "BESIDE": beside, "ALONE": not beside}
    return _choose(text, kept)


def define_weights(
    dtype: str, *, has_first: bool, has_last: bool, scaled: bool, capped: bool
) -> str:
    """What makes the weights of a tile of keys."""
    text = _WEIGHTS + (_CAPPED_WEIGHTS if capped else "")
    text = text.replace("DTYPE", dtype).replace("SCALE", _SCALE if scaled else "")
    if not (has_first or has_last):
        text = text.replace('    ahead = k0 - group["start"]\n', "")
    if capped:
        text = text.replace('group["offset_row"] + 2', 'group["depth"]')
        text = text.replace("def weigh_keys", "def cap_keys")
        text = text.replace("Exponentials of the scores", "Capped scores")
    kept = {"FIRST": has_first, "LAST": has_last, "CAP": capped, "LARGEST": not capped}
    kept |= {"MASK_FIRST": has_first and not capped, "MASK_LAST": has_last and not capped}
    return _choose(text, kept)


def define_finish(dtype: str, *, beside: bool, scaled: bool, capped: bool) -> str:
    """What divides and stores the result of a group."""
    kept = {"BESIDE": beside, "BESIDE_SCALE": beside and scaled}
    kept |= {"CAP": capped, "LARGEST": not capped}
    return _choose(_FINISH.replace("DTYPE", dtype), kept)


_SCALE = ', scale=group["scale"]'


def _choose(text: str, kept: Mapping[str, bool]) -> str:
    """The text without the lines that are marked for what is not there, and without marks."""
    lines = []
    for line in text.splitlines():
        code, _, mark = line.partition("  # ")
        if mark not in kept:
            lines.append(line)
        elif kept[mark]:
            lines.append(code)
    return "\n".join(lines)
