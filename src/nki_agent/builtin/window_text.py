"""Helper functions that kernels with windows call, and arithmetic on positions as text.

Law: what is 0 or a factor of 1 is not written.
"""

from __future__ import annotations

from nki_agent.builtin.plan import ConvolutionPlan, Plan, PoolPlan, Span
from nki_agent.isa.dtype import DType

INSIDE = '''def inside(first, step, count, size):
    """Which of the `count` positions first, first + step, ... lie in 0..size: from, to."""
    begin = min(count, max(0, -(first // step)))
    return begin, max(begin, min(count, (size - 1 - first) // step + 1))
'''
LOAD_MOVED = '''def load_moved(dst, image, top, left, step):
    """dst[:, i, j] = image[:, top + i * step, left + j] wherever that is inside of the image."""
    i0, i1 = inside(top, step, dst.shape[1], image.shape[1])
    j0, j1 = inside(left, 1, dst.shape[2], image.shape[2])
    if i0 < i1 and j0 < j1:
        first, last = top + i0 * step, top + (i1 - 1) * step
        nisa.dma_copy(
            dst=dst[:, i0:i1, j0:j1], src=image[:, first : last + 1 : step, left + j0 : left + j1]
        )
'''
LOAD_LANES = '''def load_lanes(dst, rows, first):
    """dst[i] = rows[(first + i) % len(rows)]: one for each channel, image after image."""
    lanes, channels = dst.shape[0], rows.shape[0]
    for i in range(-(first % channels), lanes, channels):
        begin, end = max(0, i), min(lanes, i + channels)
        nisa.dma_copy(dst=dst[begin:end], src=rows[begin - i : end - i])
'''
LIST_STEPS = '''def list_steps(line_sums, column_taps, depth):
    """For each phase of lines and of columns, the steps of its sum over channels and taps."""
    phases = []
    for sums in line_sums:
        phases.append([])
        for taps in column_taps:
            steps = []
            for c0 in range(0, depth, PARTITIONS):
                for operand, count, row in sums:
                    for j, column in taps:
                        steps.append((c0, operand, count, row, j, column))
            phases[-1].append(steps)
    return phases
'''
POOL_AXIS = '''def pool_axis(tile, *, window, step, count, op, dtype, dilation=1):
    """Reduces `count` windows along axis 2 of tile [P, A, N, B] to [P, A, count, B]."""
    rows, before, size, after = tile.shape
    free = before * size * after
    windows = tile.ap(
        pattern=[
            [free, rows],
            [size * after, before],
            [step * after, count],
            [1, after],
            [dilation * after, window],
        ]
    )
    pooled = nl.ndarray((rows, before, count, after), dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=pooled, op=op, data=windows, axis=4)
    return pooled
'''
POOL_COLUMNS = '''def pool_columns(tile, *, window, step, before, count, op, dtype, dilation=1):
    """Reduces windows along axis 2 of tile [P, A, N]; those that reach outside one by one."""
    rows, lines, columns = tile.shape
    pooled = nl.ndarray((rows, lines, count), dtype=dtype, buffer=nl.sbuf)
    reach = (window - 1) * dilation
    first, last = inside(-before, step, count, columns - reach)
    if first < last:
        windows = tile.ap(
            pattern=[
                [lines * columns, rows],
                [columns, lines],
                [step, last - first],
                [dilation, window],
            ],
            offset=first * step - before,
        )
        nisa.tensor_reduce(dst=pooled[:, :, first:last], op=op, data=windows, axis=3)
    for c in range(count):
        if c < first or c >= last:
            start = c * step - before
            begin, end = inside(start, dilation, window, columns)
            low, high = start + begin * dilation, start + (end - 1) * dilation
            part = tile[:, :, low : high + 1 : dilation]
            nisa.tensor_reduce(dst=pooled[:, :, c : c + 1], op=op, data=part, axis=2)
    return pooled
'''
POOL_WINDOWS = '''def pool_windows(tile, *, high, wide, op, dtype):
    """Reduces windows of `high` lines by `wide` columns, side by side, of tile [P, A, N, B]."""
    rows, before, lines, columns = tile.shape
    down, across = before * lines // high, columns // wide
    windows = tile.reshape((rows, down, high, across, wide)).permute((0, 1, 3, 2, 4))
    pooled = nl.ndarray((rows, down, across), dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=pooled, op=op, data=windows, axis=(3, 4))
    return pooled
'''
POOL_PAIRS = '''def pool_pairs(tile, *, window, step, count, op, dtype, dilation=1):
    """As pool_axis, one element of all windows at a time: 16-bit runs go at full speed."""
    rows, before, _, after = tile.shape
    pooled = nl.ndarray((rows, before, count, after), dtype=dtype, buffer=nl.sbuf)
    reach = (count - 1) * step + 1
    for w in range(1, window):
        start = w * dilation
        nisa.tensor_tensor(
            dst=pooled,
            data1=tile[:, :, :reach:step, :] if w == 1 else pooled,
            data2=tile[:, :, start : start + reach : step, :],
            op=op,
        )
    return pooled
'''
REDUCERS = {
    "pool_axis": POOL_AXIS,
    "pool_columns": POOL_COLUMNS,
    "pool_windows": POOL_WINDOWS,
    "pool_pairs": POOL_PAIRS,
}
EDGE_SHARE = 8
"""One in so many windows may reach outside, where these are reduced one by one."""
PLANES, LINES, COLUMNS = range(3)


def window_helpers(plan: Plan) -> list[str]:
    """The helper functions that the convolutions and pools of a plan share."""
    stages = [s for s in plan.stages if isinstance(s, ConvolutionPlan)]
    pools = [s for s in plan.stages if isinstance(s, PoolPlan)]
    found = [INSIDE] if stages or pools else []
    found += [LOAD_MOVED] if stages else []
    found += [LOAD_LANES] if any(s.lanes is not None for s in stages) else []
    found += [LIST_STEPS] if any(s.is_transposed for s in stages) else []
    called = {reducer(s, axis) for s in pools for axis in range(len(s.spans))}
    return found + [text for name, text in REDUCERS.items() if name in called]


def takes_pairs(plan: PoolPlan) -> bool:
    """Whether windows are reduced pair by pair but along the last axis: exact in 16 bits."""
    is_exact = plan.function in ("maximum", "minimum")
    is_wide = any(span.kernel > 1 for span in plan.spans[:-1])
    return is_exact and is_wide and plan.dtype in (DType.BFLOAT16, DType.FLOAT16)


def takes_windows(plan: PoolPlan) -> bool:
    """Whether lines and columns are reduced at once: windows side by side, each pixel read once."""
    pair = plan.spans[-2:]
    is_wide = len(pair) > 1 and all(span.kernel > 1 for span in pair)
    return is_wide and all(map(lies_side_by_side, pair)) and not takes_pairs(plan)


def takes_whole_lines(plan: PoolPlan) -> bool:
    """Whether lines have no borders in SBUF, so that all of them are loaded in one run.

    Windows that reach outside are then reduced one by one: there must be few, none of them empty.
    """
    span = plan.spans[-1]
    if plan.outside is not None or len(plan.spans) == 1 or is_inside(span):
        return False
    edges = [_inside_of_windows(span, n, o) for n, o in zip(span.num_in, span.num_out, strict=True)]
    if any(0 in counts for counts in edges):
        return False
    widest = max(edges, key=len)
    return EDGE_SHARE * sum(count < span.kernel for count in widest) <= len(widest)


def _inside_of_windows(span: Span, num_in: int, num_out: int) -> list[int]:
    """How many elements of each window are inside."""
    starts = [c * span.stride - span.before for c in range(num_out)]
    taps = [k * span.dilation for k in range(span.kernel)]
    return [sum(0 <= start + tap < num_in for tap in taps) for start in starts]


def reducer(plan: PoolPlan, axis: int) -> str:
    """The helper that reduces an axis of a pool; nothing where single elements stay."""
    span, last = plan.spans[axis], len(plan.spans) - 1
    if takes_windows(plan) and axis >= last - 1:
        return "pool_windows"
    if span.kernel == span.stride == 1:
        return ""
    if axis == last:
        return "pool_columns" if takes_whole_lines(plan) else "pool_axis"
    return "pool_pairs" if takes_pairs(plan) and span.kernel > 1 else "pool_axis"


def lies_side_by_side(span: Span) -> bool:
    """Whether each window begins where the one before it ends, and all are inside."""
    sizes = zip(span.num_in, span.num_out, strict=True)
    is_whole = all(count * span.kernel <= size for size, count in sizes)
    return is_whole and span.kernel == span.stride and span.dilation == 1 and not span.before


def is_inside(span: Span) -> bool:
    """Whether no window reaches over either end."""
    reach = (span.kernel - 1) * span.dilation - span.before
    pairs = zip(span.num_in, span.num_out, strict=True)
    return span.before <= 0 and all((o - 1) * span.stride + reach < n for n, o in pairs)


def share_lines(span: Span, each: int) -> Span:
    """How a window moves over lines of which `each` are made at a time."""
    return Span(
        num_in=span.num_in,
        num_out=tuple(-(-n // each) for n in span.num_out),
        kernel=span.kernel + each - 1,
        stride=each,
        dilation=1,
        before=span.before,
    )


def plus(*terms: str) -> str:
    """A sum as text, without what is 0."""
    kept = [t for t in terms if t not in ("0", "-0")]
    return " + ".join(kept).replace("+ -", "- ") or "0"


def scaled(name: str, factor: int) -> str:
    """`name * factor` as text, without a factor of 1."""
    if name == "0" or factor == 1:
        return name
    return f"{name} * {factor}"


def times(name: str, factor: str) -> str:
    """`name * factor` as text, where both are names."""
    return "0" if name == "0" else f"{name} * {factor}"


def divided(name: str, divisor: int) -> str:
    """`name // divisor` as text, without a divisor of 1."""
    return name if divisor == 1 else f"{name} // {divisor}"


PLACE_GROUPS = '''def place_groups(dst, weight, first, group_out):
    """Rows of weights from output `first` on, each in the columns of its group's inputs."""
    rows, cols = weight.shape
    done = 0
    while done < rows:
        group = (first + done) // group_out
        count = min(rows - done, (group + 1) * group_out - first - done)
        nisa.dma_copy(
            dst=dst[done : done + count, group * cols : (group + 1) * cols],
            src=weight[done : done + count, :],
        )
        done += count
'''
