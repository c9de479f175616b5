"""Plans depthwise convolutions whose images follow each other on the partitions.

Law: the channels of one image lie behind those of another, so that all partitions have work
whatever the number of channels; their weights come again after each image. Taps are shared out to
the Tensor Engine, by diagonal matrices, the Vector Engine, and the Scalar Engine with GpSimd, so
that all end together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from nki_agent.builtin.graph import PRODUCTS, Graph, Op
from nki_agent.builtin.plan import ConvolutionPlan, Lanes, Span
from nki_agent.builtin.tile_steps import Access, Load, Size, Store
from nki_agent.builtin.tilings import PAIR, QUARTERS, SPLIT_PASSES
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine

CLAMPS = ("maximum", "minimum", "relu")
KEPT_SHARE = 0.3
"""Part of SBUF that weights may take which stay there for the next lanes of the same channels."""
TILES_MIN = 8
"""Tiles of lanes from which on it is worth that the first wait for sums beside."""
GAIN_MIN = 0.9
"""Part of the time that sums beside may leave to be worth the room that they take."""
BANDS_BESIDE, SUMS_BESIDE = 4, 4
"""Bands and sums of a band in SBUF where there are such: products of a tap count as a sum."""
BANDS_AHEAD = 2
"""Bands of halves that are made before the sums of one: other engines halve them meanwhile."""


def lay_lanes(
    plan: ConvolutionPlan, *, after: Mapping[Engine, float], chip: ChipSpec, has_room: bool
) -> ConvolutionPlan:
    """The plan with its images on the partitions; `after` is what follows a tile's sum, in ns.

    `has_room` says whether two sums beside those in PSUM fit SBUF, with what they are made of.
    """
    taps = math.prod(span.kernel for span in plan.spans)
    columns = plan.spans[-1]
    lead = min(range(columns.kernel), key=lambda k: abs(k * columns.dilation - columns.before))
    # The lines below the first have a tap each that reaches every column.
    through = range(lead + columns.kernel, taps, columns.kernel)
    is_wide = max(columns.num_out) > chip.psum_bank_bytes // DType.FLOAT32.itemsize
    lanes = max(a * b for a, b in zip(plan.images, plan.channels_in, strict=True))
    is_long = lanes >= TILES_MIN * chip.partitions
    may_share = has_room and is_long and not is_wide and _reaches_all(columns, lead)
    # Where GpSimd holds the port that the Vector Engine needs, its sums cost as much as they save.
    may_share = may_share and not chip.vector_gpsimd_share_sbuf
    count, num_beside = _share_taps(plan, taps, after, chip, through=through if may_share else ())
    first = max(0, lead - count + 1)
    others = [tap for tap in range(taps) if not first <= tap < first + count]
    others.sort(key=lambda tap: tap not in through)
    stores = [s.src for s in plan.levels[-1] if isinstance(s, Store)]
    is_short = all(tile.dtype.itemsize <= DType.BFLOAT16.itemsize for tile in stores)
    return replace(
        plan,
        tensor_taps=count,
        lanes=Lanes(
            first_tap=first,
            lead_tap=lead,
            # What a group stores goes in one transfer.
            group=QUARTERS if is_short else PAIR,
            is_kept=not plan.levels[1] and _gains_by_keeping(plan, count, taps, chip),
            beside=tuple(others[:num_beside]),
        ),
    )


def ends_in_clamp(graph: Graph, node_id: int) -> bool:
    """Whether a clamp has the last word on a value.

    It leaves rows in which almost nothing is left of sums of the usual size, whose error of halves
    stays: wrong on a rare draw.
    """
    users = graph.users()
    waiting = [(node_id, False)]
    seen = set(waiting)
    while waiting:
        source, is_clamped = waiting.pop()
        for reader in users[source]:
            if reader < 0:
                if is_clamped:
                    return True
                continue
            node = graph[reader]
            is_clamp = node.op in (Op.BINARY, Op.UNARY) and node.function in CLAMPS
            # A product is a sum of many rows again.
            found = (reader, is_clamp or (is_clamped and node.op not in PRODUCTS))
            if found not in seen:
                seen.add(found)
                waiting.append(found)
    return False


def follow_each_other(plan: ConvolutionPlan) -> bool:
    """Whether all that is read and written beside the input has its images one after the other."""
    if len(plan.spans) > PAIR:
        return False
    steps = [step for level in plan.levels for step in level]
    accesses = [step.access for step in steps if isinstance(step, Load | Store)]
    return all(_follows(access, plan.images, plan.channels_out) for access in accesses)


def _follows(access: Access, images: Size, channels: Size) -> bool:
    image, channel, pixel = access.strides
    if not any(image):
        # One for each channel, or one for all.
        return not any(pixel)
    found = zip(image, channel, images, channels, strict=True)
    return any(channel) and all(n == 1 or a == c * b for a, b, n, c in found)


def _reaches_all(columns: Span, tap: int) -> bool:
    """Whether a tap lies inside of the image at every column of the result."""
    first = tap * columns.dilation - columns.before
    ends = zip(columns.num_in, columns.num_out, strict=True)
    return first >= 0 and all(first + (n - 1) * columns.stride < size for size, n in ends)


def _share_taps(
    plan: ConvolutionPlan,
    taps: int,
    after: Mapping[Engine, float],
    chip: ChipSpec,
    *,
    through: Sequence[int],
) -> tuple[int, int]:
    """How many taps the Tensor Engine takes, and how many the Scalar Engine with GpSimd.

    The first of the latter is one of `through`.
    """
    alone = [(n, 0) for n in range(1, taps + 1)]
    # The Tensor Engine leaves the last of `through` at least.
    most = max(through, default=0)
    beside = [(n, m) for n in range(1, most + 1) for m in range(PAIR, taps - n + 1)]
    first, second = (
        min(shares, key=lambda s: (_busiest_ns(plan, s, after, chip), s), default=alone[0])
        for shares in (alone, beside)
    )
    least = _busiest_ns(plan, first, after, chip) * GAIN_MIN
    return second if _busiest_ns(plan, second, after, chip) < least else first


def _busiest_ns(
    plan: ConvolutionPlan, shares: tuple[int, int], after: Mapping[Engine, float], chip: ChipSpec
) -> float:
    """What a tile takes of the engine that has most to do."""
    count, beside = shares
    taps = math.prod(span.kernel for span in plan.spans)
    columns = chip.psum_bank_bytes // DType.FLOAT32.itemsize
    passes = chip.matmul_fp32_passes if plan.dtype is DType.FLOAT32 else 1
    passes = SPLIT_PASSES if plan.is_split else passes
    # Ones, by which sums beside are joined, take half of the passes.
    joins = chip.matmul_fp32_passes / PAIR if beside else 0
    times = {
        Engine.TENSOR: (count * passes + joins) * columns / chip.tensor_clock_ghz,
        Engine.VECTOR: (taps - count - beside) * columns / chip.vector_clock_ghz,
        Engine.SCALAR: beside * columns / chip.scalar_clock_ghz,
        # It takes the first half from the whole where products are of halves.
        Engine.GPSIMD: max(plan.is_split, beside - 1) * PAIR * columns / chip.gpsimd_clock_ghz,
    }
    if chip.vector_gpsimd_share_sbuf:
        times[Engine.VECTOR] += times[Engine.GPSIMD]
    return max(ns + after.get(engine, 0.0) for engine, ns in times.items())


def lanes_ns(plan: ConvolutionPlan, after: Mapping[Engine, float], chip: ChipSpec) -> float:
    """An estimate of a tile's time, to choose between such plans."""
    assert plan.lanes is not None
    return _busiest_ns(plan, (plan.tensor_taps, len(plan.lanes.beside)), after, chip)


def _gains_by_keeping(plan: ConvolutionPlan, count: int, taps: int, chip: ChipSpec) -> bool:
    """Whether lanes of the same channels come again, and the weights of all of them fit."""
    phases = [c // math.gcd(c, chip.partitions) for c in plan.channels_out]
    itemsize = DType.FLOAT32.itemsize if plan.is_split else plan.dtype.itemsize
    each = count * chip.partitions * itemsize + taps * DType.FLOAT32.itemsize
    room = int(chip.sbuf_usable_partition_bytes * KEPT_SHARE)
    sizes: Sequence[tuple[int, int, int]] = list(
        zip(plan.images, plan.channels_out, phases, strict=True)
    )
    tiles = [-(-images * channels // chip.partitions) for images, channels, _ in sizes]
    comes_again = any(n > phase for n, phase in zip(tiles, phases, strict=True))
    return comes_again and all(min(n, p) * each <= room for n, p in zip(tiles, phases, strict=True))
