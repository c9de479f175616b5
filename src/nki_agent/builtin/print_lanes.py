"""Prints a depthwise convolution with the channels of all images one after the other on partitions.

Law: for each tile of pixels the Tensor Engine multiplies by a diagonal matrix for each of its taps;
then the Vector Engine adds the others to the sum where it lies, in PSUM, a group of tiles by turns.
The input of later bands is loaded, and halved, before the sums of this one.
"""

from __future__ import annotations

from nki_agent.builtin.depthwise import BANDS_AHEAD
from nki_agent.builtin.plan import ConvolutionPlan
from nki_agent.builtin.print_bands import BandPrinter, MovedTogether
from nki_agent.builtin.print_steps import StepPrinter, tile_of
from nki_agent.builtin.regions import Axis, Layout, Regions, Window
from nki_agent.builtin.text import PartScope, Scope, Source
from nki_agent.builtin.tile_steps import Access, Kind, Load, Number, Size, Step, Store
from nki_agent.builtin.window_text import COLUMNS, LINES, is_inside, plus, scaled


class LanesPrinter(BandPrinter):
    """Prints one ConvolutionPlan that has lanes into a function body."""

    def __init__(
        self, plan: ConvolutionPlan, source: Source, scope: Scope, *, helpers: Source, prefix: str
    ) -> None:
        """`helpers` takes the functions of the stage, whose names begin with `prefix`."""
        assert plan.lanes is not None
        super().__init__(plan, helpers, prefix)
        self.source = source
        self.scope = scope
        self.lanes = plan.lanes
        self.taps = self.spans[LINES].kernel * self.spans[COLUMNS].kernel
        self.is_banded = plan.band < max(self.spans[LINES].num_out)
        self.parts = self._name_parts()
        self.factors: dict[str, Number] = {}

    # -- names ------------------------------------------------------------------------------------
    def _name_parts(self) -> dict[Access, str]:
        names: dict[Access, str] = {}
        for step in self.plan.levels[-1]:
            if isinstance(step, Load | Store) and step.access not in names:
                count = sum(n.startswith(f"{step.access.tensor}_part") for n in names.values())
                suffix = f"_{count + 1}" if count else ""
                names[step.access] = f"{step.access.tensor}_part{suffix}"
        return names

    def _columns(self, level: int) -> list[str]:
        """Tiles that are made before those of the result."""
        steps = self.plan.levels[level]
        return list(dict.fromkeys(tile_of(s).name for s in steps if not isinstance(s, Store)))

    def _bands(self) -> list[str]:
        return ["band", "halves"] if self.plan.is_split else ["band"]

    def _ahead(self) -> int:
        """Bands that are loaded before the sums of one."""
        if self.lanes.beside:
            return BANDS_AHEAD + 1
        return BANDS_AHEAD if self.plan.is_split else 1

    def _own_tap(self) -> str:
        """The tap of the Tensor Engine's step s: first the one that reaches every column."""
        count, first = self.plan.tensor_taps, self.lanes.first_tap
        turn = f"(s + {self.lanes.lead_tap - first}) % {count}"
        turn = "s" if self.lanes.lead_tap == first else turn
        return plus(turn if turn == "s" or not first else f"({turn})", str(first))

    def _other_taps(self) -> str:
        """Those of the Vector Engine."""
        first, end = self.lanes.first_tap, self.lanes.first_tap + self.plan.tensor_taps
        if not first and not self.lanes.beside:
            return f"range({end}, {self.taps})"
        others = [tap for tap in range(self.taps) if not first <= tap < end]
        return str(tuple(tap for tap in others if tap not in self.lanes.beside))

    # -- the stage --------------------------------------------------------------------------------
    def print(self) -> None:
        """The whole stage."""
        self._define_load_taps()
        self._define_load_band()
        if self.lanes.beside:
            self._define_list_groups()
            self._define_add_beside()
        self._define_convolve()
        self._sizes()
        self._loop()

    def _sizes(self) -> None:
        plan, add, scope = self.plan, self.source.add, self.scope
        x = plan.x
        y = next(s.access.tensor for steps in plan.levels for s in steps if isinstance(s, Store))
        lanes = tuple(a * b for a, b in zip(plan.images, plan.channels_in, strict=True))
        lines, width = self.spans[LINES], self.spans[COLUMNS]
        has_lines = len(plan.spans) > 1
        sizes: dict[str, tuple[Size, str]] = {"num_lanes": (lanes, x)}
        sizes["num_out"] = (plan.channels_out, plan.weight)
        if has_lines:
            sizes["out_lines"] = (lines.num_out, y)
        sizes["out_width"] = (width.num_out, y)
        for name, (size, owner) in sizes.items():
            add(f"{name} = {scope.from_shapes(size, owner, from_last=name.startswith('out'))}")
            if any(n != 1 for n in size):
                scope.names.setdefault(name, size)
        add(f"num_pixels = {'out_lines * ' if has_lines else ''}out_width")
        height = scope.from_shapes(lines.num_in, x, from_last=True) if has_lines else "1"
        across = scope.from_shapes(width.num_in, x, from_last=True)
        add(f"x_lanes = {x}.reshape((num_lanes, {height}, {across}))")
        add(f"weight_rows = {plan.weight}.reshape((num_out, {self.taps}))")
        pixels = tuple(a * b for a, b in zip(lines.num_out, width.num_out, strict=True))
        pixel_axis = Axis(name="num_pixels", size=pixels)
        one = Axis(name="1", size=(1,) * len(pixels))
        self.regions = Regions(self.source, scope, [Axis(name="num_lanes", size=lanes), pixel_axis])
        channels = Axis(name="num_out", size=plan.channels_out)
        self.columns = Regions(self.source, scope, [channels, one])
        for access in self._accesses():
            regions = self.regions if any(access.strides[0]) else self.columns
            regions.prepare(_layout(access))
        self.steps = StepPrinter(self.source, scope, row_level=2, cols="cols")

    def _accesses(self) -> list[Access]:
        steps = [step for level in self.plan.levels for step in level]
        return [step.access for step in steps if isinstance(step, Load | Store)]

    def _loop(self) -> None:
        """All lanes, and all bands of each."""
        add, lanes = self.source.add, self.lanes
        made = ["columns", "diagonals", *self._columns(0)]
        if lanes.is_kept:
            self.source.note("The weights of lanes r0 on; they come again after some tiles.")
            add("kept = []")
        many = ("The next band is", "Two bands are", "Three bands are")[self._ahead() - 1]
        self.source.note(f"{many} loaded before the sums of this one.")
        add("ready = []")
        if lanes.beside:
            self._list_ones()
        with self.source.block("for r0 in range(0, num_lanes, PARTITIONS):"):
            add("rows = min(PARTITIONS, num_lanes - r0)")
            if lanes.is_kept:
                tile = "r0 // PARTITIONS"
                with self.source.block(f"if len(kept) == {tile} and (r0 == 0 or r0 % num_out):"):
                    self._make_columns()
                    add(f"kept.append(({', '.join(made)}))")
                add(f"{', '.join(made)} = kept[{tile} % len(kept)]")
            else:
                self._make_columns()
            for step in self.plan.levels[1]:
                self._step(step, 1)
            if not self.is_banded:
                self._band("0", "out_lines" if len(self.plan.spans) > 1 else "1")
            else:
                with self.source.block(f"for b0 in range(0, out_lines, {self.plan.band}):"):
                    add(f"lines = min({self.plan.band}, out_lines - b0)")
                    self._band("b0", "lines")
        if lanes.beside:
            with self.source.block("while ready:"):
                self._convolve_first()
            return
        with self.source.block("for block in ready:"):
            add(f"{self.prefix}convolve(*block)")

    def _convolve_first(self) -> None:
        """The first of the bands that are ready, and sums beside of one behind it meanwhile."""
        add, ahead = self.source.add, BANDS_AHEAD
        add(f"later = ready[{ahead}][0] if len(ready) > {ahead} else []")
        add(f"{self.prefix}convolve(later, ones, *ready.pop(0)[1:])")

    def _list_ones(self) -> None:
        """Ones on a diagonal, by which the Tensor Engine adds what there is to its own sums."""
        add = self.source.add
        add("ones = nl.ndarray((PARTITIONS, PARTITIONS), dtype=nl.float32, buffer=nl.sbuf)")
        add("nisa.memset(dst=ones, value=1.0, engine=nisa.engine.gpsimd)")
        add(
            "nisa.affine_select(dst=ones, pattern=[[-1, PARTITIONS]], channel_multiplier=1,"
            " on_true_tile=ones, on_false_value=0.0)"
        )

    def _make_columns(self) -> None:
        self.source.add(f"columns, diagonals = {self.prefix}load_taps(weight_rows, r0, rows)")
        for step in self.plan.levels[0]:
            self._step(step, 0)

    def _step(self, step: Step, level: int) -> None:
        """One that is made before the tiles of the result."""
        rows = Window(start="r0", count="rows")
        match step:
            case Load() if any(step.access.strides[0]):
                self.steps.allocate(step.dst)
                text = self.regions.text(_layout(step.access), [rows, Window(count="1")])
                self.source.add(f"nisa.dma_copy(dst={step.dst.name}, src={text})")
            case Load() if step.dst.kind is Kind.ROW:
                self.source.add(
                    f"{step.dst.name} = nl.ndarray((rows, 1), dtype=nl.{step.dst.dtype.value},"
                    " buffer=nl.sbuf)"
                )
                self.steps.take(step.dst)
                windows = [Window(count="num_out"), Window(count="1")]
                text = self.columns.text(_layout(step.access), windows)
                self.source.add(f"load_lanes({step.dst.name}, {text}, r0)")
            case Load():
                self.steps.allocate(step.dst)
                windows = [Window(count="num_out"), Window(count="1")]
                text = self.columns.text(_layout(step.access), windows, spread="PARTITIONS")
                self.source.add(f"nisa.dma_copy(dst={step.dst.name}, src={text})")
            case Store():
                text = self.regions.text(_layout(step.access), [rows, Window(count="1")])
                self.source.add(f"nisa.dma_copy(dst={text}, src={step.src.name})")
            case _:
                self.steps.print(step, level)

    def _band(self, first: str, lines: str) -> None:
        add = self.source.add
        add(
            f"{', '.join(self._bands())} ="
            f" {self.prefix}load_band(x_lanes[r0 : r0 + rows], {first}, {lines})"
        )
        window = Window(count="num_pixels")
        if self.is_banded:
            window = Window(start=f"{first} * out_width", count=f"{lines} * out_width")
        windows = [Window(start="r0", count="rows"), window]
        parts = [self.regions.text(_layout(access), windows) for access in self.parts]
        factors = [self.scope.number(factor) for factor in self.factors.values()]
        given = [*parts, *self._columns(0), *self._columns(1), *factors]
        given += [*self._bands(), "columns", "diagonals", lines, "out_width"]
        if self.lanes.beside:
            self._list_work(lines, given)
            return
        add(f"ready.append(({', '.join(given)}))")
        with self.source.block(f"if len(ready) > {self._ahead()}:"):
            add(f"{self.prefix}convolve(*ready.pop(0))")

    def _list_work(self, lines: str, given: list[str]) -> None:
        """A band with sums beside those in PSUM: they are made group by group."""
        add, prefix = self.source.add, self.prefix
        add(f"beside = nl.ndarray((rows, {lines}, out_width), dtype=nl.float32, buffer=nl.sbuf)")
        add("work = []")
        with self.source.block(f"for group in {prefix}list_groups({lines}, out_width):"):
            add("q0, end = group[0][0], group[-1][0] + group[-1][1]")
            add("work.append((beside[:, q0:end, :], band, columns, q0))")
        self.source.note(
            "Those of the first bands at once, later ones beside the sums before them."
        )
        with self.source.block(f"while len(ready) < {BANDS_AHEAD} and work:"):
            add(f"{prefix}add_beside(*work.pop(0))")
        add(f"ready.append((work, beside, {', '.join(given)}))")
        with self.source.block(f"if len(ready) > {self._ahead()}:"):
            self._convolve_first()

    # -- functions --------------------------------------------------------------------------------
    def _define_load_taps(self) -> None:
        body = Source(depth=1)
        add, count = body.add, self.plan.tensor_taps
        many = f"{count} taps as diagonal matrices" if count > 1 else "one tap as diagonal matrix"
        add(f'"""The taps of lanes r0 to r0 + rows, each a column; and {many}."""')
        add(f"columns = nl.ndarray((rows, {self.taps}), dtype=nl.float32, buffer=nl.sbuf)")
        add("load_lanes(columns, weight, r0)")
        whole = "whole" if self.plan.is_split else "diagonals"
        add(f"{whole} = nl.ndarray((rows, {count}, rows), dtype=weight.dtype, buffer=nl.sbuf)")
        with body.block(f"for s in range({count}):"):
            add(f"tap = {self._own_tap()}")
            add(
                f"nisa.affine_select(dst={whole}[:, s, :], pattern=[[-1, rows]],"
                " channel_multiplier=1, on_true_tile=columns[:, tap : tap + 1].broadcast(1, rows),"
                " on_false_value=0.0)"
            )
        if self.plan.is_split:
            add(
                f"diagonals = nl.ndarray((rows, 2, {count}, rows), dtype=nl.bfloat16,"
                " buffer=nl.sbuf)"
            )
            add("split(diagonals, whole)")
        add("return columns, diagonals")
        self._define("load_taps", ["weight", "r0", "rows"], body)

    def _define_list_groups(self) -> None:
        body = Source(depth=1)
        group = self.lanes.group
        body.add(f'"""(first line, lines, first column, columns) of {group} tiles each."""')
        self._list_tiles(body)
        body.add("groups = []")
        with body.block(f"for t0 in range(0, len(tiles), {group}):"):
            body.add(f"groups.append(tiles[t0 : t0 + {group}])")
        body.add("return groups")
        self._define("list_groups", ["lines", "out_width"], body)

    def _define_add_beside(self) -> None:
        body = Source(depth=1)
        add, (first, *others) = body.add, self.lanes.beside
        add('"""What some taps add: GpSimd adds up what the Scalar Engine multiplies."""')
        add("rows, count, width = window.shape")
        add("j0 = 0")
        body.note(f"Tap {first} reaches every column.")
        add(f"tap = {first}")
        part, region = self._reach(body)
        add(
            f"nisa.activation(dst={part}, op=nl.copy, data=band[:, {region}],"
            " scale=columns[:rows, tap : tap + 1])"
        )
        self._end_reach(body)
        others_text = f"({others[0]},)" if len(others) == 1 else f"{tuple(others)}"
        with body.block(f"for tap in {others_text}:"):
            part, region = self._reach(body)
            scaled_part = part.replace("window", "product")
            add("product = nl.ndarray((rows, count, width), dtype=nl.float32, buffer=nl.sbuf)")
            add(
                f"nisa.activation(dst={scaled_part}, op=nl.copy, data=band[:, {region}],"
                " scale=columns[:rows, tap : tap + 1])"
            )
            add(
                f"nisa.tensor_tensor(dst={part}, data1={part}, data2={scaled_part}, op=nl.add,"
                " engine=nisa.engine.gpsimd)"
            )
            self._end_reach(body)
        self._define("add_beside", ["window", "band", "columns", "q0"], body)

    def _define_convolve(self) -> None:
        body = Source(depth=1)
        scope = PartScope({}, {})
        printer = StepPrinter(body, scope, row_level=2, cols="cols")
        add, group = body.add, self.lanes.group
        add('"""One band of one tile of lanes; what follows leaves PSUM with it."""')
        add("rows = band.shape[0]")
        if self.lanes.beside:
            loop = f"for tiles in {self.prefix}list_groups(lines, out_width):"
        else:
            self._list_tiles(body)
            loop = f"for t0 in range(0, len(tiles), {group}):"
        with body.block(loop):
            if self.lanes.beside:
                with body.block("if later:"):
                    add(f"{self.prefix}add_beside(*later.pop(0))")
            add("group, total = [], 0")
            each = "tiles" if self.lanes.beside else f"tiles[t0 : t0 + {group}]"
            with body.block(f"for q0, count, j0, width in {each}:"):
                add("window = nl.ndarray((rows, count, width), dtype=nl.float32, buffer=nl.psum)")
                self._own_steps(body)
                if self.lanes.beside:
                    add(
                        "nisa.nc_matmul(dst=window, stationary=ones[:rows, :rows],"
                        " moving=beside[:, q0 : q0 + count, j0 : j0 + width],"
                        " is_stationary_onezero=True)"
                    )
                add("group.append((window, q0, count, j0, width))")
                add("total += count * width")
            if self.plan.tensor_taps + len(self.lanes.beside) < self.taps:
                body.note("The other taps, a step of each sum by turns: none waits for its last.")
                with (
                    body.block(f"for tap in {self._other_taps()}:"),
                    body.block("for window, q0, count, j0, width in group:"),
                ):
                    self._other_step(body)
            self._finish(body, printer)
        self.factors = scope.given
        given = ["later", "ones", "beside"] if self.lanes.beside else []
        given += [*self.parts.values(), *self._columns(0), *self._columns(1), *self.factors]
        given += [*self._bands(), "columns", "diagonals", "lines", "out_width"]
        self._define("convolve", given, body)

    def _list_tiles(self, body: Source) -> None:
        add = body.add
        if len(self.plan.spans) == 1:
            body.note("An even number of equal parts of the line.")
            add("num_tiles = 2 * ((out_width + 2 * BANK - 1) // (2 * BANK))")
            add("most = (out_width + num_tiles - 1) // num_tiles")
            add("tiles = []")
            with body.block("for j0 in range(0, out_width, most):"):
                add("tiles.append((0, 1, j0, min(most, out_width - j0)))")
            return
        body.note("An even number of tiles of as many whole lines; wider lines are cut.")
        add("most = 2 * max(1, BANK // out_width)")
        add("num_tiles = 2 * ((lines + most - 1) // most)")
        add("tile_lines = (lines + num_tiles - 1) // num_tiles")
        add("tiles = []")
        size = "(q0, min(tile_lines, lines - q0), j0, min(BANK, out_width - j0))"
        with (
            body.block("for q0 in range(0, lines, tile_lines):"),
            body.block("for j0 in range(0, out_width, BANK):"),
        ):
            add(f"tiles.append({size})")

    def _own_steps(self, body: Source) -> None:
        add = body.add
        with body.block(f"for s in range({self.plan.tensor_taps}):"):
            add(f"tap = {self._own_tap()}")
            part, region = self._reach(body)
            if self.plan.is_split:
                body.note("The product of both second parts is too small to count.")
                with body.block("for x_half, w_half in ((0, 0), (0, 1), (1, 0)):"):
                    add(
                        f"nisa.nc_matmul(dst={part}, stationary=diagonals[:rows, w_half, s, :rows],"
                        f" moving=halves[:, x_half, {region}])"
                    )
            else:
                add(
                    f"nisa.nc_matmul(dst={part}, stationary=diagonals[:rows, s, :rows],"
                    f" moving=band[:, {region}])"
                )
            self._end_reach(body)

    def _other_step(self, body: Source) -> None:
        part, region = self._reach(body)
        body.add(f"part = {part}")
        body.add(
            f"nisa.scalar_tensor_tensor(dst=part, data=band[:, {region}], op0=nl.multiply,"
            " operand0=columns[:rows, tap : tap + 1], op1=nl.add, operand1=part)"
        )
        self._end_reach(body)

    def _reach(self, body: Source) -> tuple[str, str]:
        """Opens where a tap lies inside of the image: the part of the sum, and what it reads."""
        add = body.add
        lines, columns = self.spans[LINES], self.spans[COLUMNS]
        down, across = lines.stride, columns.stride
        taps = ("tap // ", "tap % ")
        line, column = (f"{text}{columns.kernel}" for text in taps)
        if lines.kernel == 1:
            line, column = "0", "tap"
        wrapped = f"({line})" if lines.dilation > 1 and line != "0" else line
        top = plus(scaled("q0", down), scaled(wrapped, lines.dilation))
        wrapped = f"({column})" if columns.dilation > 1 and column != "tap" else column
        left = plus(scaled("j0", across), scaled(wrapped, columns.dilation), str(-columns.before))
        add(f"top, left = {top}, {left}")
        region = f"top : top + (count - 1) * {down} + 1 : {down}" if down > 1 else (
            "top : top + count"
        )  # fmt: skip
        if is_inside(columns):
            step = f" : {across}" if across > 1 else ""
            end = f"left + (width - 1) * {across} + 1{step}" if across > 1 else "left + width"
            return "window", f"{region}, left : {end}"
        add(f"begin, end = inside(left, {across}, width, band.shape[2])")
        add("if begin < end:")
        body.depth += 1
        start = plus("left", scaled("begin", across))
        end = f"left + (end - 1) * {across} + 1 : {across}" if across > 1 else "left + end"
        return "window[:, :, begin:end]", f"{region}, {start} : {end}"

    def _end_reach(self, body: Source) -> None:
        body.depth -= 0 if is_inside(self.spans[COLUMNS]) else 1

    def _finish(self, body: Source, printer: StepPrinter) -> None:
        """What follows the sums of a group; all that it reads and writes goes in one transfer."""
        add = body.add
        first = "tiles[0]" if self.lanes.beside else "tiles[t0]"
        add(f"n0, c0 = {first}[0] * out_width + {first}[2], 0")
        group = MovedTogether(self.plan.levels[-1], self.parts, body)
        group.load()
        with body.block("for window, _, count, _, width in group:"):
            add("cols = count * width")
            add(f"{self.plan.product.name} = window.reshape((rows, cols))")
            group.print("c0 : c0 + cols", printer)
            add("c0 += cols")
        group.store()


def _layout(access: Access) -> Layout:
    """An access over lanes and pixels."""
    _, channel, pixel = access.strides
    return Layout(tensor=access.tensor, strides=(channel, pixel), offset=access.offset)
