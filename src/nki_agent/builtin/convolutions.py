"""Plans convolutions and pools: what lies on the partitions, and what is loaded at a time.

Law: an input's pixels stay in SBUF while every tap reads them. Few channels leave partitions idle,
so that several taps lie side by side on them, each a copy of the input moved by its tap.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from nki_agent.builtin.align import (
    Alignment,
    Axes,
    Walk,
    align,
    group_size,
    group_stride,
    moving_axes,
    outside_operands,
    share_axes,
    varying,
    walk_of,
    walk_of_result,
)
from nki_agent.builtin.balance import Estimate, balance
from nki_agent.builtin.capture import Captured
from nki_agent.builtin.choices import Choices
from nki_agent.builtin.depthwise import (
    BANDS_AHEAD,
    BANDS_BESIDE,
    SUMS_BESIDE,
    ends_in_clamp,
    follow_each_other,
    lanes_ns,
    lay_lanes,
)
from nki_agent.builtin.graph import PADDED, Op, UnsupportedError, Window
from nki_agent.builtin.lower import Lowering
from nki_agent.builtin.pending import Place
from nki_agent.builtin.plan import ConvolutionPlan, PoolPlan, Span, Stored
from nki_agent.builtin.stages import Group
from nki_agent.builtin.tile_steps import (
    Access,
    Kind,
    Load,
    Number,
    Size,
    Step,
    Store,
    Tile,
    loaded_dtype,
)
from nki_agent.builtin.tilings import (
    PAIR,
    QUARTERS,
    SPLIT_PASSES,
    Layers,
    Tiling,
    halving_ns,
    joins_groups,
    list_tilings,
    product_ns,
    share_taps,
    share_tiles,
    tile_ns,
)
from nki_agent.builtin.titles import describe
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine

BAND_SHARE = 0.2
"""Part of SBUF that the input of one band may take; the next ones are loaded beside it."""
IMAGE_SHARE = 0.3
"""The same where a band has to be a whole image."""
LANES_SHARE = 0.7
"""The same for all bands and sums of a depthwise convolution with sums beside those in PSUM."""
POOL_SHARE = 0.45
"""The same for a pool, which keeps nothing else."""
WEIGHT_SHARE = 0.4
"""Part of SBUF that all weights may take."""
BAND_MAX = 1024
"""Lines of a band where any number would fit."""


SPLIT_USES_MIN = 8
"""Products that read a pixel of an image from which on three of its halves are faster than one."""
HALVING_MARGIN = 1.5
"""Products of halves must take so many times what halving takes, which is seldom all hidden."""


class WindowPlanner:
    """Plans one convolution or pool and the elementwise nodes behind it."""

    def __init__(
        self,
        captured: Captured,
        group: Group,
        *,
        buffers: Mapping[int, Stored],
        outputs: Sequence[int],
        chip: ChipSpec,
    ) -> None:
        """`buffers` names every value in HBM by its base node; `outputs` are the nodes to store."""
        self.captured = captured
        self.graph = captured.graph
        self.group = group
        self.buffers = buffers
        self.outputs = outputs
        self.chip = chip
        self.node = next(self.graph[n] for n in group.nodes if self.graph[n].window is not None)
        found = [align(graph, group.nodes, seed=self.node.id) for graph in captured.graphs]
        self.alignments: list[Alignment] = [a for a in found if a is not None]
        assert len(self.alignments) == len(found)
        share_axes(self.alignments)
        self.operands = dict(outside_operands(self.graph, group.nodes, self.alignments[0]))
        self.sizes = tuple(a.sizes for a in self.alignments)
        rank = len(self.node.shape)
        is_pool = self.node.op is Op.POOL
        # A pool's channels are alike, so that those of all images lie together.
        self.batch: tuple[int, ...] = () if is_pool else (-rank,)
        self.rows: tuple[int, ...] = (-rank, 1 - rank) if is_pool else (1 - rank,)
        self.pixels = tuple(range(PAIR - rank, 0))

    # -- sizes ------------------------------------------------------------------------------------
    def _spans(self) -> tuple[Span, ...]:
        """Raises: UnsupportedError: a window whose own sizes change with the shapes."""
        window = self.node.window
        assert window is not None
        for graph in self.captured.graphs:
            other = graph[self.node.id].window
            assert other is not None
            ways = [
                (w.kernel, w.stride, w.dilation, w.before, w.is_transposed) for w in (window, other)
            ]
            if ways[0] != ways[1]:
                raise UnsupportedError(self.node.origin, "its window changes with the shapes")
        x = self.node.inputs[0]
        return tuple(
            Span(
                num_in=tuple(g[x].shape[axis] for g in self.captured.graphs),
                num_out=tuple(g[self.node.id].shape[axis] for g in self.captured.graphs),
                kernel=window.kernel[axis],
                stride=window.stride[axis],
                dilation=window.dilation[axis],
                before=window.before[axis],
            )
            for axis in self.pixels
        )

    def _size(self, node_id: int, axis: int) -> Size:
        return tuple(g[node_id].shape[axis] for g in self.captured.graphs)

    def _name(self, node_id: int) -> str:
        return self.buffers[self.graph.base(node_id).id].name

    def _groups(self) -> Size:
        """Groups of channels at each shape set."""
        windows = [g[self.node.id].window for g in self.captured.graphs]
        return tuple(w.groups for w in windows if w is not None)

    def _layers(self, spans: tuple[Span, ...], window: Window, groups: Size) -> Layers:
        """One group of channels, or all as one where that is as fast."""
        x = self.node.inputs[0]
        channels_in, channels_out = self._size(x, 1), self._size(self.node.id, 1)
        one = Layers(
            images=self._size(x, 0),
            channels_in=tuple(c // g for c, g in zip(channels_in, groups, strict=True)),
            channels_out=tuple(c // g for c, g in zip(channels_out, groups, strict=True)),
            spans=spans,
            dtype=self.graph[x].dtype,
            chip=self.chip,
            mixing=self.node.function,
            is_transposed=window.is_transposed,
            reads_images=self._reads_images(),
        )
        is_pointwise = all(span.kernel == 1 for span in spans) and not window.is_transposed
        if one.mixing != "grouped" or not is_pointwise:
            return one
        every = replace(one, channels_in=channels_in, channels_out=channels_out, mixing="dense")
        return every if joins_groups(one, every, groups) else one

    def convolution(self, choices: Choices) -> ConvolutionPlan:
        """Plan the stage of a convolution.

        Raises:
            UnsupportedError: lines or weights that do not fit SBUF.
        """
        x, weight = self.node.inputs
        spans = self._spans()
        window = self.node.window
        assert window is not None
        require_covered(spans[-1], window, self.node.origin)
        groups = self._groups()
        layers = self._layers(spans, window, groups)
        if layers.mixing == "depthwise" and (found := self._in_lanes(layers, choices)) is not None:
            return found
        tiling, band, is_split = self._tile_halves(layers, choices)
        # Neighbouring lines are put in order before what follows reads another image.
        is_ready = not (window.is_transposed or (tiling.lines_each > 1 and layers.reads_images))
        levels, product = self._epilogue(in_psum=is_ready, busy=tile_ns(layers, tiling))
        tile_pitch = share_tiles(layers) if tiling.lines_each == 1 else 0
        return ConvolutionPlan(
            title=describe(self.captured, self.group.nodes),
            x=self._name(x),
            weight=self._name(weight),
            dtype=layers.dtype,
            mixing=layers.mixing,
            is_transposed=window.is_transposed,
            images=layers.images,
            channels_in=self._size(x, 1),
            channels_out=self._size(self.node.id, 1),
            groups=groups,
            spans=spans,
            stack=tiling.stack,
            band=band,
            lines_each=tiling.lines_each,
            planes_each=tiling.planes_each,
            pitch=tile_pitch or tiling.pitch,
            tiles_each=self.chip.partitions // tile_pitch if tile_pitch else 1,
            tiles_moved=self._tiles_moved(spans, levels[-1]),
            tensor_taps=share_taps(layers),
            product=product,
            levels=levels,
            is_split=is_split,
        )

    def _tile_halves(self, layers: Layers, choices: Choices) -> tuple[Tiling, int, bool]:
        """Tiling and band, and whether products are of halves."""
        tiling, band = self._tile(layers, choices, copies=1)
        if choices.split_products and self._gains_by_halves(layers, tiling):
            # Both halves and the whole may take too much room.
            with contextlib.suppress(UnsupportedError):
                return *self._tile(layers, choices, copies=PAIR), True
        return tiling, band, False

    def _tiles_moved(self, spans: Sequence[Span], steps: Sequence[Step]) -> int:
        """How many tiles of whole lines make a transfer that is worth its start."""
        bank = self.chip.psum_bank_bytes // DType.FLOAT32.itemsize
        if len(spans) < PAIR or max(spans[-1].num_out) > bank:
            return 1
        stores = [step.src for step in steps if isinstance(step, Store)]
        is_short = all(tile.dtype.itemsize <= DType.BFLOAT16.itemsize for tile in stores)
        return QUARTERS if is_short else PAIR

    def _reads_images(self) -> bool:
        """Whether what follows the sum reads values of single pixels."""
        walks = (self._walks(source, axes) for source, axes in self.operands.items())
        return any(self._place(moving_axes(w, self.sizes)).kind is Kind.FULL for w in walks)

    def _in_lanes(self, layers: Layers, choices: Choices) -> ConvolutionPlan | None:
        """A depthwise sum with its images one after the other; None where they cannot lie so.

        Raises:
            UnsupportedError: lines that do not fit SBUF.
        """
        x, weight = self.node.inputs
        spans, ones = layers.spans, (1,) * len(layers.spans)
        levels, product = self._epilogue(
            in_psum=True, busy=tile_ns(layers, Tiling(lines_each=1, spans=spans, stack=ones))
        )
        plan = ConvolutionPlan(
            title=describe(self.captured, self.group.nodes),
            x=self._name(x),
            weight=self._name(weight),
            dtype=layers.dtype,
            mixing=layers.mixing,
            is_transposed=False,
            images=layers.images,
            channels_in=self._size(x, 1),
            channels_out=self._size(self.node.id, 1),
            groups=self._size(x, 1),
            spans=spans,
            stack=ones,
            band=1,
            lines_each=1,
            pitch=0,
            tensor_taps=1,
            product=product,
            levels=levels,
        )
        if not follow_each_other(plan):
            return None
        is_split = choices.split_products and layers.dtype is DType.FLOAT32
        is_split = is_split and not ends_in_clamp(self.graph, self.node.id)
        room = self.chip.sbuf_usable_partition_bytes * BAND_SHARE * choices.sbuf_share
        bank = self.chip.psum_bank_bytes // DType.FLOAT32.itemsize
        after = Estimate(self.chip, bank, len(self.sizes)).loads(levels[-1])
        found: list[ConvolutionPlan] = []
        for copies in (PAIR, 1) if is_split else (1,):
            try:
                # Of halves there is one band more at a time.
                each = room if copies == 1 else room / copies * PAIR / (1 + BANDS_AHEAD)
                band = self._band(spans, ones, int(each), layers.dtype)
            except UnsupportedError:
                if copies == 1 and not found:
                    raise
                continue
            made = replace(plan, band=band, is_split=copies > 1)
            has_room = self._has_room_beside(made, choices)
            found.append(lay_lanes(made, after=after, chip=self.chip, has_room=has_room))
        return min(found, key=lambda plan: lanes_ns(plan, after, self.chip))

    def _has_room_beside(self, plan: ConvolutionPlan, choices: Choices) -> bool:
        """Whether bands fit SBUF as often as sums beside those in PSUM need them."""
        if len(plan.spans) < PAIR or plan.is_split:
            return False  # other engines halve what a split plan reads
        lines, columns = plan.spans
        read = min(plan.band, max(lines.num_out)) * lines.stride + lines.kernel * lines.dilation
        needed = BANDS_BESIDE * read * max(columns.num_in) * plan.dtype.itemsize
        made = min(plan.band, max(lines.num_out)) * max(columns.num_out)
        needed += SUMS_BESIDE * made * DType.FLOAT32.itemsize
        room = self.chip.sbuf_usable_partition_bytes * choices.sbuf_share * LANES_SHARE
        return needed <= room

    def _gains_by_halves(self, layers: Layers, tiling: Tiling) -> bool:
        """Whether products of halves take longer than other engines need to halve the input."""
        if layers.dtype is not DType.FLOAT32 or layers.mixing == "depthwise":
            return False
        blocks = -(-max(layers.channels_out) // self.chip.partitions)
        if not layers.is_transposed and len(layers.spans) <= PAIR:
            # A clamp may leave rows of almost nothing, whose error is that of usual sums.
            is_safe = tiling.lines_each == 1 or not ends_in_clamp(self.graph, self.node.id)
            return is_safe and tiling.steps * blocks >= SPLIT_USES_MIN
        times = SPLIT_PASSES * product_ns(layers, tiling)
        return HALVING_MARGIN * halving_ns(layers, tiling) <= times

    def _tile(self, layers: Layers, choices: Choices, *, copies: int) -> tuple[Tiling, int]:
        """The best tiling that fits SBUF, and the lines of a band, which is there so many times.

        Raises:
            UnsupportedError: none fits.
        """
        fault: UnsupportedError | None = None
        is_deep = layers.mixing != "depthwise"
        blocks = -(-max(layers.channels_in) // self.chip.partitions) if is_deep else 1
        whole = self.chip.sbuf_usable_partition_bytes * choices.sbuf_share / copies
        for tiling in choices.first(list_tilings(layers)):
            room = int(whole * (BAND_SHARE if tiling.lines_each == 1 else IMAGE_SHARE))
            planes = 1
            if len(layers.spans) > PAIR:
                planes = tiling.spans[0].kernel // tiling.stack[0]
            try:
                self._require_weights(layers, tiling)
                band = self._band(
                    tiling.spans[-PAIR:], tiling.stack, room // (blocks * planes), layers.dtype
                )
            except UnsupportedError as error:
                fault = error
                continue
            # Bands of groups of lines would need lines of their own.
            if tiling.lines_each == 1 or band >= max(tiling.spans[-PAIR].num_out):
                return tiling, band
        assert fault is not None
        raise fault

    def _require_weights(self, layers: Layers, tiling: Tiling) -> None:
        """All operands of one group of channels stay in SBUF."""
        lanes = self.chip.partitions
        is_deep = layers.mixing != "depthwise"
        channels_out = self._size(self.node.id, 1) if not is_deep else layers.channels_out
        blocks = -(-max(layers.channels_in) // lanes)
        outs = max(*channels_out, tiling.sharing * tiling.pitch)
        needed = blocks * tiling.steps * outs * layers.dtype.itemsize
        room = int(self.chip.sbuf_usable_partition_bytes * WEIGHT_SHARE)
        if needed > room:
            raise UnsupportedError(
                self.node.origin,
                f"its weights need {needed} bytes of each partition, and {room} are for them",
            )

    def _band(self, spans: Sequence[Span], stack: Sequence[int], room: int, dtype: DType) -> int:
        """Lines of the result for which the input's lines fit `room` bytes of a partition.

        Raises:
            UnsupportedError: not even one line does.
        """
        width = max(spans[-1].num_in) + spans[-1].kernel
        if len(spans) == 1:
            if width * dtype.itemsize > room:
                raise self._too_wide(width)
            return 1
        lines = spans[-PAIR]
        halo = (lines.kernel - 1) * lines.dilation
        whole = room // (width * dtype.itemsize) - halo
        window = self.node.window
        assert window is not None
        if window.is_transposed:
            band = whole * lines.stride
        else:
            band = whole // (1 if stack[-PAIR] == lines.kernel else lines.stride)
        if band < 1:
            raise self._too_wide(width)
        return min(band, BAND_MAX // lines.stride * lines.stride)

    def _too_wide(self, width: int) -> UnsupportedError:
        return UnsupportedError(
            self.node.origin,
            f"lines of {width} pixels do not fit SBUF",
            hint="cut the image into narrower ones",
        )

    def pool(self, choices: Choices) -> PoolPlan:
        """Plan the stage of a pool.

        Raises:
            UnsupportedError: whole numbers, or an input that does not fit SBUF.
        """
        x = self.node.inputs[0]
        dtype = self.graph[x].dtype
        if not dtype.is_float:
            raise UnsupportedError(self.node.origin, "pools of whole numbers are not covered")
        spans = self._spans()
        levels, product = self._epilogue(in_psum=False, busy={})
        first, *rest = spans
        # One step along the first axis holds all pixels of the others, before and after.
        each = math.prod(max(s.num_in) + 2 * s.before for s in rest)
        room = int(self.chip.sbuf_usable_partition_bytes * POOL_SHARE * choices.sbuf_share)
        # Beside the input lies what is left when its last axis is reduced, and then the next.
        left = DType.FLOAT32.itemsize * PAIR / spans[-1].stride if rest else 0
        each_bytes = int(each * (dtype.itemsize + left))
        band = (room // each_bytes - (first.kernel - 1) * first.dilation - 1) // first.stride + 1
        if band < 1:
            raise self._too_wide(each)
        return PoolPlan(
            title=describe(self.captured, self.group.nodes),
            x=self._name(x),
            dtype=dtype,
            function=self.node.function,
            rows=group_size(self.rows, self.sizes),
            spans=spans,
            band=min(band, BAND_MAX),
            product=product,
            levels=levels,
            outside=self._outside(),
        )

    def _outside(self) -> Number | None:
        if self.node.function != PADDED:
            return None
        return tuple(graph[self.node.id].value for graph in self.captured.graphs)

    # -- what follows -----------------------------------------------------------------------------
    def _walks(self, source: int, axes: Axes) -> list[Walk]:
        pairs = zip(self.captured.graphs, self.alignments, strict=True)
        return [walk_of(graph, source, axes, found) for graph, found in pairs]

    def _epilogue(
        self, *, in_psum: bool, busy: Mapping[Engine, float]
    ) -> tuple[tuple[tuple[Step, ...], ...], Tile]:
        last = PAIR if self.batch else 0
        places = {n: self._place(varying(self.alignments, n)) for n in self.group.nodes}
        lowering = Lowering(
            self.graph,
            places=places,
            numbers=self.captured.numbers(),
            generation=self.chip.generation,
            num_levels=last + 1,
        )
        lowering.reserve(stored.name for stored in self.buffers.values())
        lowering.reserve(RESERVED)
        name = lowering.name("product" if self.batch else "pooled")
        is_kept = self.node.function in ("maximum", PADDED)
        dtype = self.graph[self.node.inputs[0]].dtype if is_kept else DType.FLOAT32
        product = Tile(name=name, kind=Kind.FULL, dtype=dtype, level=last, in_psum=in_psum)
        lowering.bind(self.node.id, product)
        for source, axes in self.operands.items():
            walks = self._walks(source, axes)
            place = self._place(moving_axes(walks, self.sizes))
            stored = self.buffers[self.graph.base(source).id]
            loaded = loaded_dtype(stored.dtype, is_scalar=place.kind in (Kind.ROW, Kind.ONE))
            tile = lowering.tile(f"{stored.name}_{place.kind.value}", place, loaded)
            access = self._access(stored.name, walks)
            lowering.emit(place.level, Load(dst=tile, access=access))
            lowering.bind(source, tile)
        for node_id in self.group.nodes:
            if node_id != self.node.id:
                lowering.lower(self.graph[node_id])
        lowering.expect(self.outputs)
        for node_id in self.outputs:
            stored = self.buffers[node_id]
            tile = lowering.finish(node_id, f"{stored.name}_tile", stored.dtype)
            walks = [
                walk_of_result(g, node_id, a, stored, i)
                for i, (g, a) in enumerate(zip(self.captured.graphs, self.alignments, strict=True))
            ]
            access = self._access(stored.name, walks)
            lowering.emit(tile.level, Store(access=access, src=tile))
        levels = lowering.levels
        estimate = Estimate(
            self.chip, self.chip.psum_bank_bytes // DType.FLOAT32.itemsize, len(self.sizes)
        )
        levels[-1] = balance(
            levels[-1], estimate, floor_ns=0.0, busy=busy, scratch=lowering.taken_names
        )
        return tuple(tuple(steps) for steps in levels), product

    def _place(self, axes: frozenset[int]) -> Place:
        row, col = bool(axes & set(self.rows)), bool(axes & set(self.pixels))
        kind = {
            (True, True): Kind.FULL,
            (True, False): Kind.ROW,
            (False, True): Kind.VECTOR,
            (False, False): Kind.ONE,
        }[row, col]
        if not self.batch:
            return Place(kind, 0)
        return Place(kind, PAIR if col else int(bool(axes & set(self.batch))))

    def _access(self, tensor: str, walks: Sequence[Walk]) -> Access:
        groups = ([self.batch] if self.batch else []) + [self.rows, self.pixels]
        strides = tuple(group_stride(g, walks, self.sizes) for g in groups)
        return Access(tensor=tensor, strides=strides, offset=tuple(w.offset for w in walks))


def require_covered(span: Span, window: Window, origin: str) -> None:
    """A product is written only inside of the image, so that each column must have a tap there.

    Raises:
        UnsupportedError: a column of the result reads nothing at all.
    """
    reach = range(span.kernel)
    # Further in, all columns are like these.
    edge = span.kernel * span.dilation + span.stride + span.before
    for num_in, num_out in zip(span.num_in, span.num_out, strict=True):
        for column in {*range(min(edge, num_out)), *range(max(0, num_out - edge), num_out)}:
            if window.is_transposed:
                apart = [column + span.before - k * span.dilation for k in reach]
                inside = [d % span.stride == 0 and 0 <= d // span.stride < num_in for d in apart]
            else:
                first = column * span.stride - span.before
                inside = [0 <= first + k * span.dilation < num_in for k in reach]
            if not any(inside):
                raise UnsupportedError(origin, f"column {column} of its result reads nothing")


RESERVED = (
    *("bands", "weights", "steps", "rows", "cols", "lines", "width", "window"),
    *("band", "halves", "columns", "diagonals", "tiles", "group", "total", "part"),
    *("windows", "high", "wide"),
)
"""Names of the code around the tiles."""
