"""Chooses how a convolution fills the Tensor Engine: taps on the partitions, lines in one product.

Law: a choice must fit at every shape set and is made for the largest. The estimates are for
choosing; the cost model has the last word.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nki_agent.builtin.plan import Span
from nki_agent.builtin.tile_steps import Size
from nki_agent.builtin.window_text import share_lines
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine

PAIR = 2
QUARTERS = 4
SPLIT_PASSES = 3
"""Products of halves that make one of float32 operands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """What a convolution works on: channels of one group, its window, and the chip."""

    images: Size
    channels_in: Size
    channels_out: Size
    spans: tuple[Span, ...]
    dtype: DType
    chip: ChipSpec
    mixing: str
    is_transposed: bool
    reads_images: bool = False
    """Whether what follows the sum reads values of single pixels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """Lines that share a product, how its window moves then, and taps on the partitions."""

    lines_each: int
    spans: tuple[Span, ...]
    stack: tuple[int, ...]
    pitch: int = 0
    """Partitions between the lines of one product."""
    planes_each: int = 1

    @property
    def sharing(self) -> int:
        """Lines that share a product, of all planes that do."""
        return self.lines_each * self.planes_each

    @property
    def steps(self) -> int:
        """Products that one sum has for each block of channels."""
        pairs = zip(self.spans, self.stack, strict=True)
        return math.prod(-(-span.kernel // n) for span, n in pairs)


def list_tilings(layers: Layers) -> list[Tiling]:
    """All that are worth a try, the fastest first by estimate."""
    found = list(dict.fromkeys(_candidates(layers)))
    return sorted(found, key=lambda tiling: (_estimate_ns(layers, tiling), tiling.lines_each))


def _candidates(layers: Layers) -> Iterator[Tiling]:
    spans, room = layers.spans, layers.chip.partitions // max(layers.channels_in)
    if layers.mixing == "depthwise":
        yield Tiling(lines_each=1, spans=spans, stack=(1,) * len(spans))
        return
    if layers.is_transposed:
        yield Tiling(lines_each=1, spans=spans, stack=_stack_phases(spans, room))
        return
    pitch = _pitch(layers)
    most = layers.chip.partitions // pitch if pitch else 1
    for each in range(1, most + 1):
        moved = spans
        if each > 1:
            moved = (*spans[:-PAIR], share_lines(spans[-PAIR], each), spans[-1])
        stacks = [_stack(moved, room)]
        if math.prod(s.kernel for s in moved) <= room and spans[-1].stride == 1:
            stacks.append(tuple(s.kernel for s in moved))
        for stack in stacks:
            yield Tiling(lines_each=each, spans=moved, stack=stack, pitch=pitch if each > 1 else 0)
    if most >= QUARTERS and may_share_planes(layers):
        planes, lines = (share_lines(span, PAIR) for span in spans[:PAIR])
        moved = (planes, lines, spans[-1])
        stack = _stack(moved, room)
        yield Tiling(lines_each=PAIR, planes_each=PAIR, spans=moved, stack=stack, pitch=pitch)


def joins_groups(grouped: Layers, dense: Layers, groups: Size) -> bool:
    """Whether all groups at once, as one convolution with zeros between them, are as fast.

    Few channels leave partitions idle, and with them the DMA engines that fill these.
    """
    one, every = list_tilings(grouped)[0], list_tilings(dense)[0]
    return _estimate_ns(dense, every) <= max(groups) * _estimate_ns(grouped, one)


def may_share_planes(layers: Layers) -> bool:
    """Whether lines of two planes may share a product: they read most planes together."""
    if len(layers.spans) <= PAIR or layers.reads_images:
        return False
    planes = layers.spans[0]
    return planes.stride == planes.dilation == 1 < planes.kernel and min(planes.num_out) > 1


def _pitch(layers: Layers) -> int:
    """Where on the partitions a line may begin that shares a product; 0 if none may.

    Engines read from multiples of a quarter of the partitions, and of a half if it is more.
    """
    if len(layers.spans) < PAIR:
        return 0
    lines = layers.spans[-PAIR]
    is_plain = lines.stride == lines.dilation == 1 < lines.kernel
    return _narrow_pitch(layers) if is_plain else 0


def share_tiles(layers: Layers) -> int:
    """Where on the partitions a tile may begin that shares a PSUM tile; 0 if none may."""
    is_image = len(layers.spans) == PAIR and not layers.is_transposed
    has_lines = is_image and max(layers.spans[0].num_out) > 1
    return _narrow_pitch(layers) if has_lines else 0


def _narrow_pitch(layers: Layers) -> int:
    """The part of the partitions that all output channels fit into; 0 for many channels."""
    columns = layers.spans[-1]
    bank = layers.chip.psum_bank_bytes // DType.FLOAT32.itemsize
    if layers.mixing != "dense" or max(columns.num_out) > bank:
        return 0
    parts = (layers.chip.partitions // QUARTERS, layers.chip.partitions // PAIR)
    return next((n for n in parts if max(layers.channels_out) <= n), 0)


def _stack(spans: Sequence[Span], room: int) -> tuple[int, ...]:
    """Planes first, then lines."""
    found = [1] * len(spans)
    for axis, span in enumerate(spans[:-1]):
        if len(spans) > PAIR:
            # Volumes: equal shares, so that each step is a run of partitions.
            shares = [n for n in range(span.kernel, 0, -1) if span.kernel % n == 0]
            found[axis] = next((n for n in shares if n <= room), 1)
            if axis == 0 and found[0] < span.kernel:
                found[0] = 1  # Planes are loaded one by one or all together.
        else:
            found[axis] = max(1, min(span.kernel, room))
        room //= found[axis]
    return tuple(found)


def _stack_phases(spans: Sequence[Span], room: int) -> tuple[int, ...]:
    """Taps of one phase of lines, each `stride` taps behind the one before."""
    if len(spans) < PAIR:
        return (1,)
    lines = spans[-PAIR]
    return (max(1, min(-(-lines.kernel // lines.stride), room)), 1)


def share_taps(layers: Layers) -> int:
    """Taps of a depthwise sum that the Tensor Engine takes, so that no engine waits for another."""
    taps = math.prod(span.kernel for span in layers.spans)
    if layers.mixing != "depthwise":
        return taps
    product_ns, pass_ns = _pass_ns(layers)
    # Beside its taps the Vector Engine takes half of what follows.
    return min(
        range(1, taps + 1),
        key=lambda n: (max(n * product_ns, (taps - n + 0.5) * pass_ns), -n),
    )


def tile_ns(layers: Layers, tiling: Tiling) -> dict[Engine, float]:
    """What the sum of one tile takes of each engine."""
    product_ns, pass_ns = _pass_ns(layers)
    if layers.mixing != "depthwise":
        return {Engine.TENSOR: tiling.steps * product_ns}
    taps = share_taps(layers)
    return {Engine.TENSOR: taps * product_ns, Engine.VECTOR: (tiling.steps - taps) * pass_ns}


def product_ns(layers: Layers, tiling: Tiling) -> float:
    """One pass of all products that read one line of the input, or share one of the result."""
    chip = layers.chip
    outs = -(-max(layers.channels_out) // chip.partitions)
    columns = max(tiling.spans[-1].num_out)
    if layers.is_transposed:
        # Each input line and column is read in every phase.
        columns = max(tiling.spans[-1].num_in)
    return tiling.steps * outs * columns / chip.tensor_clock_ghz


def halving_ns(layers: Layers, tiling: Tiling) -> float:
    """Time to halve the input of as many products, on the slower of the two engines that do it."""
    lines = 1
    if len(tiling.spans) >= PAIR and not layers.is_transposed:
        span = tiling.spans[-PAIR]
        is_thin = tiling.stack[-PAIR] == span.kernel and tiling.planes_each == 1
        lines = 1 if is_thin else span.stride
    columns = max(tiling.spans[-1].num_in if tiling.stack[-1] == 1 else tiling.spans[-1].num_out)
    # Rounded to the first half, which is then subtracted: two operands from SBUF.
    return lines * columns * PAIR / layers.chip.gpsimd_clock_ghz


def _pass_ns(layers: Layers) -> tuple[float, float]:
    """Times of one product of a whole bank, and of one pass of the Vector Engine over it."""
    chip = layers.chip
    columns = chip.psum_bank_bytes // DType.FLOAT32.itemsize
    passes = chip.matmul_fp32_passes if layers.dtype is DType.FLOAT32 else 1
    return (
        columns * passes / chip.tensor_clock_ghz,
        (columns + chip.vector_overhead_cycles) / chip.vector_clock_ghz,
    )


def _estimate_ns(layers: Layers, tiling: Tiling) -> float:
    """The longer of products and transfers, at the largest shape set."""
    pixels = [
        math.prod(span.num_out[i] for span in layers.spans) * layers.images[i]
        for i in range(len(layers.images))
    ]
    index = max(range(len(pixels)), key=lambda i: pixels[i])
    chip, itemsize = layers.chip, layers.dtype.itemsize
    passes = chip.matmul_fp32_passes if layers.dtype is DType.FLOAT32 else 1
    channels_in, channels_out = layers.channels_in[index], layers.channels_out[index]
    blocks = -(-channels_in // chip.partitions) * -(-channels_out // chip.partitions)
    columns = pixels[index] / tiling.sharing
    product_ns = columns * tiling.steps * blocks * passes / chip.tensor_clock_ghz
    width = layers.spans[-1].num_out[index] * itemsize
    copies = math.prod(tiling.stack)
    inputs = math.prod(span.num_in[index] for span in layers.spans) * layers.images[index]
    inputs = inputs // tiling.planes_each
    is_strided = tiling.lines_each > 1 and tiling.stack[-PAIR] == tiling.spans[-PAIR].kernel
    is_strided = is_strided and tiling.planes_each == 1
    lines = is_strided or tiling.stack[-1] > 1
    loaded = _transfer_ns(chip, channels_in * copies, inputs * itemsize, width if lines else None)
    stored = _transfer_ns(chip, channels_out, pixels[index] * itemsize, None)
    # Lines that share a product are put in order first, on one of two engines.
    copies_ns = pixels[index] / chip.vector_clock_ghz if tiling.lines_each > 1 else 0.0
    return max(product_ns, loaded + stored, copies_ns)


def _transfer_ns(chip: ChipSpec, partitions: int, each_bytes: float, run: int | None) -> float:
    """Time of moving `each_bytes` of each partition in pieces of `run` bytes; None if long."""
    engines = min(
        chip.dma_engines_per_core, max(1, partitions * chip.dma_engines_per_core // chip.partitions)
    )
    pace = 1 / chip.dma_engine_bytes_per_ns
    if run is not None:
        pace = max(pace, chip.dma_descriptor_ns / run)
    return partitions * each_bytes * pace / engines
