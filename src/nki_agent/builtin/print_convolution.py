"""Prints a convolution: bands of the input in SBUF, and for each tap a product over channels.

Law: a product is written only where its tap lies inside the image's columns, so that no line needs
a border; lines outside are zero in the band.
"""

from __future__ import annotations

from nki_agent.builtin.depthwise import BANDS_AHEAD
from nki_agent.builtin.plan import ConvolutionPlan
from nki_agent.builtin.print_bands import BandPrinter, MovedTogether
from nki_agent.builtin.print_steps import StepPrinter, layout_of, tile_of
from nki_agent.builtin.regions import Axis, Regions, Window
from nki_agent.builtin.text import PartScope, Scope, Source
from nki_agent.builtin.tile_steps import Access, Kind, Load, Number, Size, Step, Store, Tile
from nki_agent.builtin.window_text import (
    COLUMNS,
    LINES,
    PLACE_GROUPS,
    PLANES,
    is_inside,
    plus,
    scaled,
    times,
)


class ConvolutionPrinter(BandPrinter):
    """Prints one ConvolutionPlan into a function body."""

    def __init__(
        self,
        plan: ConvolutionPlan,
        source: Source,
        scope: Scope,
        *,
        helpers: Source,
        prefix: str,
    ) -> None:
        """`helpers` takes the functions of the stage, whose names begin with `prefix`."""
        self.source = source
        self.scope = scope
        super().__init__(plan, helpers, prefix)
        self.is_deep = plan.mixing != "depthwise"
        self.taps = self.spans[0].kernel * self.spans[1].kernel * self.spans[2].kernel
        self.is_banded = plan.band < max(self.spans[LINES].num_out)
        self.parts = self._name_parts()
        self.factors: dict[str, Number] = {}

    # -- names ------------------------------------------------------------------------------------
    def _name_parts(self) -> dict[Access, str]:
        names: dict[Access, str] = {}
        for step in self._tile_steps():
            if isinstance(step, Load | Store) and step.access not in names:
                count = sum(n.startswith(f"{step.access.tensor}_part") for n in names.values())
                suffix = f"_{count + 1}" if count else ""
                names[step.access] = f"{step.access.tensor}_part{suffix}"
        return names

    def _tile_steps(self) -> tuple[Step, ...]:
        """All that follows the sum of a tile."""
        return self.plan.levels[-1]

    def _fields(self) -> list[str]:
        """What tells the steps of the sum apart."""
        found = ["c0"] if self.is_deep else []
        for name, axis in (("p", PLANES), ("k", LINES), ("j", COLUMNS)):
            if self.spans[axis].kernel > self.stack[axis]:
                found.append(name)
        return found or ["j"]

    def _tap(self, field: str) -> str:
        """A field of a step, or 0 where there is one value only."""
        return field if field in self._fields() else "0"

    def _unpack(self) -> str:
        return f"{', '.join(self._fields())} = steps[s]"

    def _stacked(self) -> str:
        """Lines of taps that one step has on the partitions."""
        kernel, stack = self.spans[LINES].kernel, self.stack[LINES]
        if kernel % stack:
            return f"min({stack}, {kernel} - k)"
        return str(stack)

    def _size(self) -> str:
        """Partitions of a step."""
        if not self.is_deep:
            return ""
        factors = [str(self.stack[PLANES]), self._stacked(), str(self.stack[COLUMNS])]
        return " * ".join([*(f for f in factors if f != "1"), "channels"])

    # -- the stage --------------------------------------------------------------------------------
    def print(self) -> None:
        """The whole stage."""
        self._define_load_weights()
        self._define_load_band()
        self._define_convolve()
        self._sizes()
        self._list_steps()
        if self.plan.is_split:
            self.source.note("Two bands are loaded and halved before the sums of one.")
            self.source.add("ready = []")
        if self.plan.mixing == "grouped":
            with self.source.block("for g in range(num_groups):"):
                self._group()
        else:
            self._group()
        if self.plan.is_split:
            with self.source.block("for each in ready:"):
                self.source.add(f"{self.prefix}convolve(*each)")

    def _sizes(self) -> None:
        plan, add, scope = self.plan, self.source.add, self.scope
        x, y = plan.x, self._result()
        sizes: dict[str, tuple[Size, str]] = {
            "num_images": (plan.images, x),
            "num_in": (plan.channels_in, x),
            "num_out": (plan.channels_out, y),
        }
        for axis, name in ((PLANES, "planes"), (LINES, "lines"), (COLUMNS, "width")):
            if axis >= 3 - len(plan.spans):
                span = self.plan.spans[axis - 3 + len(plan.spans)]
                sizes[f"out_{name}"] = (span.num_out, y)
        for name, (size, owner) in sizes.items():
            is_minor = name in ("out_width", "out_lines")
            add(f"{name} = {scope.from_shapes(size, owner, from_last=is_minor)}")
            if any(n != 1 for n in size):
                scope.names.setdefault(name, size)
        if len(plan.spans) == 1:
            add("out_lines = 1")
        add(f"num_pixels = {self._pixels_text()}")
        self._name_groups()
        add(f"x_images = {self._reshaped(x)}")
        add(f"weight_rows = {self._columns_of_weights()}")
        axes = [
            Axis(name="num_images", size=plan.images),
            Axis(name="num_out", size=plan.channels_out),
            Axis(name="num_pixels", size=self._num_pixels()),
        ]
        self.regions = Regions(self.source, scope, axes)
        for steps in (*plan.levels[:-1], self._tile_steps()):
            for step in steps:
                if isinstance(step, Load | Store):
                    self.regions.prepare(layout_of(step.access))
        self.steps = StepPrinter(self.source, scope, row_level=2, cols="cols")

    def _name_groups(self) -> None:
        """How many groups there are, and the channels of one where each has a turn."""
        is_grouped, add = self.plan.mixing == "grouped", self.source.add
        if is_grouped or self.joins_groups:
            add(f"num_groups = {self.scope.from_shapes(self.plan.groups)}")
        if is_grouped:
            add("group_in, group_out = num_in // num_groups, num_out // num_groups")

    def _columns_of_weights(self) -> str:
        """The weights as rows of one output channel each."""
        if self.joins_groups:
            return f"{self.plan.weight}.reshape((num_out, num_in // num_groups))"
        columns = " * ".join(t for t in (self._depth(), str(self.taps)) if t != "1") or "1"
        return f"{self.plan.weight}.reshape((num_out, {columns}))"

    @property
    def joins_groups(self) -> bool:
        """Whether groups are one convolution, whose weights have zeros between them."""
        return self.plan.mixing == "dense" and any(n != 1 for n in self.plan.groups)

    def _depth(self) -> str:
        """Input channels that one output channel reads."""
        return {"dense": "num_in", "grouped": "group_in", "depthwise": "1"}[self.plan.mixing]

    def _result(self) -> str:
        levels = (*self.plan.levels[:-1], self._tile_steps())
        return next(s.access.tensor for steps in levels for s in steps if isinstance(s, Store))

    def _pixels_text(self) -> str:
        """How many pixels are stored of each image."""
        return f"{'out_planes * ' if self.has_planes else ''}out_lines * out_width"

    def _num_pixels(self) -> Size:
        total = [1] * len(self.plan.images)
        for span in self.plan.spans:
            total = [t * n for t, n in zip(total, span.num_out, strict=True)]
        return tuple(total)

    def _reshaped(self, x: str) -> str:
        """The input as images, channels and pixels; a sequence as images of one line."""
        pixels = [span.num_in for span in self.plan.spans]
        shape = [self.plan.images, self.plan.channels_in, *pixels]
        if list(self.scope.shapes[x]) == shape and len(pixels) > 1:
            return x
        texts = [self.scope.from_shapes(size, x, from_last=True) for size in pixels]
        if len(pixels) == 1:
            texts.insert(0, "1")
        return f"{x}.reshape((num_images, num_in, {', '.join(texts)}))"

    def _list_steps(self) -> None:
        fields, add = self._fields(), self.source.add
        loops = {
            "c0": f"range(0, {'group_in' if self.plan.mixing == 'grouped' else 'num_in'},"
            " PARTITIONS)",
            "p": f"range({self.spans[PLANES].kernel})",
            "k": self._line_loop(),
            "j": self._column_loop(),
        }
        words = {"c0": "first channel", "p": "plane tap", "k": "line tap", "j": "column tap"}
        text = " and ".join(words[f] for f in fields)
        self.source.note(f"The steps of each sum: {text}.")
        add("steps = []")
        depth = 0
        for field in fields:
            add(f"for {field} in {loops[field]}:")
            self.source.depth += 1
            depth += 1
        made = ", ".join(fields)
        add(f"steps.append({made})" if len(fields) == 1 else f"steps.append(({made}))")
        self.source.depth -= depth

    def _line_loop(self) -> str:
        kernel, stack = self.spans[LINES].kernel, self.stack[LINES]
        return f"range({kernel})" if stack == 1 else f"range(0, {kernel}, {stack})"

    def _column_loop(self) -> str:
        """All column taps, one first that covers every column if there is one."""
        span = self.spans[COLUMNS]
        if is_inside(span):
            return f"range({span.kernel})"
        taps = list(range(span.kernel))
        taps.sort(key=lambda k: abs(k * span.dilation - span.before))
        return f"({', '.join(map(str, taps))},)" if len(taps) == 1 else str(tuple(taps))

    def _group(self) -> None:
        """All images of one group of channels."""
        add, plan = self.source.add, self.plan
        add("blocks = []")
        start, stop = "0", "num_out"
        if plan.mixing == "grouped":
            start, stop = "g * group_out", "(g + 1) * group_out"
        with self.source.block(self._open_block(start, stop)):
            self._size_block(stop)
            add(self._load_weights())
            for step in plan.levels[0]:
                self._step(step, 0)
            add(f"blocks.append(({', '.join(self._unpack_block())}))")
        with self.source.block("for i in range(num_images):"):
            if self.has_planes:
                with self.source.block(f"for z in range({self._plane_steps()}):"):
                    self._image()
            else:
                self._image()

    def _plane_steps(self) -> str:
        """How many times planes of the result are made."""
        return "out_planes"

    def _open_block(self, start: str, stop: str) -> str:
        """The loop over blocks of output channels."""
        return f"for o0 in range({start}, {stop}, PARTITIONS):"

    def _size_block(self, stop: str) -> None:
        self.source.add(f"rows = min(PARTITIONS, {stop} - o0)")

    def _unpack_block(self) -> list[str]:
        return ["o0", "weights", *self._kept(0)]

    def _reopen_block(self) -> None:
        """The parts of a block that was kept."""
        self.source.add(f"{', '.join(self._unpack_block())} = block")
        self.source.add(f"rows = {self._rows()}")

    def _after_lines(self) -> list[str]:
        """More sizes that the tiles of a band need."""
        return []

    def _channels(self) -> str:
        """How many output channels a block has."""
        return "rows"

    def _load_weights(self) -> str:
        rows = f"weight_rows[o0 : o0 + {self._channels()}, :]"
        more = ", o0, num_out // num_groups" if self.joins_groups else ""
        return f"weights = {self.prefix}load_weights({rows}, steps, {self._depth()}{more})"

    def _more_operands(self) -> list[str]:
        """What a block has beside its weights."""
        return []

    def _rows(self) -> str:
        """Output channels of a block of weights."""
        return f"weights.shape[{2 + self.plan.is_split}]"

    def _given_depth(self) -> list[str]:
        return [self._depth()] if self.is_deep else []

    def _kept(self, level: int) -> list[str]:
        """Tiles that are made before those of the result."""
        steps = self.plan.levels[level]
        return list(dict.fromkeys(tile_of(s).name for s in steps if not isinstance(s, Store)))

    def _image(self) -> None:
        add = self.source.add
        if not self.is_banded:
            self._band("0", "out_lines")
            return
        with self.source.block(f"for r0 in range(0, out_lines, {self.plan.band}):"):
            add(f"lines = min({self.plan.band}, out_lines - r0)")
            self._band("r0", "lines")

    def _band(self, first: str, lines: str) -> None:
        add = self.source.add
        if self.is_deep:
            depth = self._depth()
            shift = "g * group_in + " if self.plan.mixing == "grouped" else ""
            add("bands = []")
            with self.source.block(f"for c0 in range(0, {depth}, PARTITIONS):"):
                add(f"channels = min(PARTITIONS, {depth} - c0)")
                start = f"{shift}c0"
                self._load_bands(f"{start} : {start} + channels", first, lines)
        with self.source.block("for block in blocks:"):
            self._reopen_block()
            if not self.is_deep:
                add("bands = []")
                self._load_bands("o0 : o0 + rows", first, lines)
            for step in self.plan.levels[1]:
                self._step(step, 1)
            self._call(first, lines)

    def _load_bands(self, channels: str, first: str, lines: str) -> None:
        add = self.source.add
        given = [f"x_images[i, {channels}]", first, lines]
        if self.stack[COLUMNS] > 1:
            given.append("out_width")
        if self.has_planes:
            span = self.spans[PLANES]
            plane = plus(scaled("z", span.stride), str(-span.before))
            if span.kernel > self.stack[PLANES]:
                with self.source.block(f"for p in range({span.kernel}):"):
                    place = plus(scaled("p", span.dilation), plane)
                    given.insert(1, place)
                    add(f"bands.append({self.prefix}load_band({', '.join(given)}))")
                return
            given.insert(1, plane)
        add(f"bands.append({self.prefix}load_band({', '.join(given)}))")

    def _call(self, first: str, lines: str) -> None:
        window = self._part_window(first, lines)
        windows = [Window(start="i"), Window(start="o0", count=self._channels()), window]
        parts = [self.regions.text(layout_of(access), windows) for access in self.parts]
        factors = [self.scope.number(factor) for factor in self.factors.values()]
        kept = [*self._kept(0), *self._kept(1)]
        given = [*parts, *kept, *factors, "bands", "weights", *self._more_operands(), "steps"]
        given += [*self._given_depth(), lines, "out_width", *self._after_lines()]
        if not self.plan.is_split:
            self.source.add(f"{self.prefix}convolve({', '.join(given)})")
            return
        self.source.add(f"ready.append(({', '.join(given)}))")
        with self.source.block(f"if len(ready) > {BANDS_AHEAD}:"):
            self.source.add(f"{self.prefix}convolve(*ready.pop(0))")

    def _part_window(self, first: str, lines: str) -> Window:
        """The pixels of one band of one image."""
        if not self.has_planes and not self.is_banded:
            return Window(count="num_pixels")
        start = first if not self.has_planes else plus("z * out_lines", first)
        start = f"({start}) * out_width" if " + " in start else times(start, "out_width")
        return Window(start=start, count=f"{lines} * out_width")

    def _step(self, step: Step, level: int) -> None:
        match step:
            case Load():
                self.steps.allocate(step.dst)
                text = self._region(step.access, step.dst, is_store=False)
                self.source.add(f"nisa.dma_copy(dst={step.dst.name}, src={text})")
            case Store():
                text = self._region(step.access, step.src, is_store=True)
                self.source.add(f"nisa.dma_copy(dst={text}, src={step.src.name})")
            case _:
                self.steps.print(step, level)

    def _region(self, access: Access, tile: Tile, *, is_store: bool) -> str:
        block = Window(start="o0", count=self._channels())
        windows = [Window(start="i"), block, Window(count="num_pixels")]
        is_spread = tile.kind in (Kind.VECTOR, Kind.ONE) and not is_store
        return self.regions.text(
            layout_of(access), windows, spread="PARTITIONS" if is_spread else ""
        )

    # -- functions --------------------------------------------------------------------------------
    def _define_load_weights(self) -> None:
        body = Source(depth=1)
        add = body.add
        add(
            '"""Rows of weights [out, in * taps] as an operand [in, out] for each step of a sum."""'
        )
        add("rows = weight.shape[0]")
        self._load_rows_of_weights(body)
        add(self._new_weights("rows"))
        with body.block("for s in range(len(steps)):"):
            add(self._unpack())
            add("channels = min(PARTITIONS, depth - c0)")
            add(f"size = {self._size()}")
            add("turned = nl.ndarray((size, rows), dtype=weight.dtype, buffer=nl.psum)")
            add(f"nisa.nc_transpose(dst=turned, data={self._weight_taps()})")
            add(self._keep_weights(":"))
        add("return weights")
        self._define("load_weights", self._given_weights(), body)

    def _given_weights(self) -> list[str]:
        """What the function that loads weights is given."""
        return ["weight", "steps", "depth"] + ["first", "group_out"] * self.joins_groups

    def _load_rows_of_weights(self, body: Source) -> None:
        """Rows of weights as they are, or with zeros for the inputs of other groups."""
        if not self.joins_groups:
            body.add("tile = nl.ndarray(weight.shape, dtype=weight.dtype, buffer=nl.sbuf)")
            body.add("nisa.dma_copy(dst=tile, src=weight)")
            return
        shape = "(weight.shape[0], depth)"
        body.add(f"tile = nl.ndarray({shape}, dtype=weight.dtype, buffer=nl.sbuf)")
        body.add("nisa.memset(dst=tile, value=0.0)")
        self.helpers.add()
        self.helpers.add()
        self.helpers.lines.extend(PLACE_GROUPS.replace("def ", f"def {self.prefix}").splitlines())
        body.add(f"{self.prefix}place_groups(tile, weight, first, group_out)")

    def _new_weights(self, rows: str) -> str:
        """The operands of all steps, not yet written."""
        halves, dtype = ("2, ", "nl.bfloat16") if self.plan.is_split else ("", "weight.dtype")
        return (
            f"weights = nl.ndarray((PARTITIONS, {halves}len(steps), {rows}), dtype={dtype},"
            " buffer=nl.sbuf)"
        )

    def _keep_weights(self, rows: str) -> str:
        """The turned weights of one step put where its product reads them."""
        if self.plan.is_split:
            return f"leave_split(dst=weights[:size, :, s, {rows}], src=turned)"
        return f"nisa.tensor_copy(dst=weights[:size, s, {rows}], src=turned)"

    def _weight_taps(self, rows: str = "rows") -> str:
        """The weights of one step: rows of output channels, taps and input channels along them."""
        lines, columns = self.spans[LINES].kernel, self.spans[COLUMNS].kernel
        if self.taps == 1:
            return "tile[:, c0 : c0 + channels]"
        pattern = [f"[{scaled('depth', self.taps)}, {rows}]"]
        if self.stack[PLANES] > 1:
            pattern.append(f"[{lines * columns}, {self.stack[PLANES]}]")
        if self.stack[LINES] > 1:
            pattern.append(f"[{columns}, {self._stacked()}]")
        if self.stack[COLUMNS] > 1:
            pattern.append(f"[1, {columns}]")
        pattern.append(f"[{self.taps}, channels]")
        offset = plus(
            scaled("c0", self.taps),
            scaled(self._tap("p"), lines * columns),
            scaled(self._tap("k"), columns),
            self._tap("j"),
        )
        return f"tile.ap(pattern=[{', '.join(pattern)}], offset={offset})"

    def _define_convolve(self) -> None:
        body = Source(depth=1)
        scope = PartScope({}, {})
        printer = StepPrinter(body, scope, row_level=2, cols="cols")
        add = body.add
        add('"""One band for one block of channels; what follows leaves PSUM with it."""')
        if not self._after_lines():
            add(f"rows = {self._rows()}")
        self._tile_loops(body, printer)
        self.factors = scope.given
        kept = [*self._kept(0), *self._kept(1)]
        depth = ["depth"] if self.is_deep else []
        given = [*self.parts.values(), *kept, *self.factors, "bands", "weights"]
        given += [*self._more_operands(), "steps", *depth]
        self._define("convolve", [*given, "lines", "out_width", *self._after_lines()], body)

    def _tile_loops(self, body: Source, printer: StepPrinter) -> None:
        add = body.add
        cut = "" if self.plan.tiles_moved > 1 else "; wider lines are cut"
        body.note(f"Tiles of equally many whole lines{cut}.")
        add("most = max(1, BANK // out_width)")
        add("num_tiles = (lines + most - 1) // most")
        add("tile_lines = (lines + num_tiles - 1) // num_tiles")
        if self.plan.tiles_moved > 1:
            self._tile_groups(body, printer)
            return
        with body.block("for q0 in range(0, lines, tile_lines):"):
            add("count = min(tile_lines, lines - q0)")
            with body.block("for j0 in range(0, out_width, BANK):"):
                add("width = min(BANK, out_width - j0)")
                add("n0, cols = q0 * out_width + j0, count * width")
                self._sum(body)
                for step in self.plan.levels[-1]:
                    self._step_in_part(step, printer)

    def _sum(self, body: Source) -> None:
        """All products of a tile."""
        body.add("product = nl.ndarray((rows, cols), dtype=nl.float32, buffer=nl.psum)")
        body.add("window = product.reshape((rows, count, width))")
        with body.block("for s in range(len(steps)):"):
            self._multiply(body)

    def _tile_groups(self, body: Source, printer: StepPrinter) -> None:
        """Tiles of whole lines; all that a group of them reads and writes goes in one transfer."""
        add, steps = body.add, self.plan.levels[-1]
        body.note("A transfer is worth its start where it moves several of them.")
        add(f"group_lines = {self.plan.tiles_moved} * tile_lines")
        with body.block("for g0 in range(0, lines, group_lines):"):
            add("n0, total = g0 * out_width, min(group_lines, lines - g0) * out_width")
            group = MovedTogether(steps, self.parts, body)
            group.load()
            with body.block("for q0 in range(g0, min(g0 + group_lines, lines), tile_lines):"):
                add("count = min(tile_lines, lines - q0)")
                add("j0, width = 0, out_width")
                add("n1, cols = (q0 - g0) * width, count * width")
                self._sum(body)
                group.print("n1 : n1 + cols", printer)
            group.store()

    def _multiply(self, body: Source) -> None:
        """One step of the sum."""
        add = body.add
        _, pace = self._steps_down()
        lines, columns = self.spans[LINES], self.spans[COLUMNS]
        add(self._unpack())
        index = self._tap("p")
        if self.is_deep:
            add("channels = min(PARTITIONS, depth - c0)")
            add(f"size = {self._size()}")
            first = "c0 // PARTITIONS"
            loose = self.spans[PLANES].kernel > self.stack[PLANES]
            index = plus(scaled(first, self.spans[PLANES].kernel), "p") if loose else first
        add(f"band = bands[{index}]")
        top = plus(scaled("q0", pace), scaled(self._tap("k"), lines.dilation))
        add(f"top = {top}")
        down = (
            "top : top + count" if pace == 1 else f"top : top + (count - 1) * {pace} + 1 : {pace}"
        )
        stride = columns.stride
        if self.stack[COLUMNS] > 1:
            left, begin, end = "j0", "0", "width"
        else:
            left = plus(
                scaled("j0", stride), scaled(self._tap("j"), columns.dilation), str(-columns.before)
            )
            begin, end = ("0", "width") if is_inside(columns) else ("begin", "end")
        add(f"left = {left}")
        if begin != "0":
            add(f"begin, end = inside(left, {stride}, width, band.shape[{2 + self.plan.is_split}])")
            add("if begin < end:")
            body.depth += 1
        start = plus("left", scaled(begin, stride))
        across = (
            f"{start} : left + {end}"
            if stride == 1
            else f"{start} : left + ({end} - 1) * {stride} + 1 : {stride}"
        )
        size = ":size" if self.is_deep else ":"
        part = "window" if begin == "0" else "window[:, :, begin:end]"
        self._add_step(body, part, f"band[{size}, {down}, {across}]")
        if begin != "0":
            body.depth -= 1

    def _add_step(self, body: Source, part: str, own: str) -> None:
        """What a step adds to its part of the sum."""
        if not self.plan.is_split:
            body.add(f"nisa.nc_matmul(dst={part}, stationary={self._operand()}, moving={own})")
            return
        body.note("The product of both second parts is too small to count.")
        moving = own.replace("band[:size, ", "band[:size, x_half, ")
        with body.block("for x_half, w_half in ((0, 0), (0, 1), (1, 0)):"):
            body.add(
                f"nisa.nc_matmul(dst={part}, stationary={self._operand('w_half, ')},"
                f" moving={moving})"
            )

    def _operand(self, half: str = "") -> str:
        """The weights of a step."""
        return f"weights[:size, {half}s, :]"

    def _step_in_part(self, step: Step, printer: StepPrinter) -> None:
        if not isinstance(step, Load | Store):
            printer.print(step, 2)
            return
        tile = tile_of(step)
        part = f"{self.parts[step.access]}[:, n0 : n0 + cols]"
        if isinstance(step, Load):
            printer.allocate(tile)
            printer.source.add(f"nisa.dma_copy(dst={tile.name}, src={part})")
        else:
            printer.source.add(f"nisa.dma_copy(dst={part}, src={tile.name})")
