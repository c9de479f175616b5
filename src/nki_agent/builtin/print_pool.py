"""Prints a pool: channels on the partitions, windows reduced along one axis after the other.

Law: what lies outside is the neutral element, written around the input before any window is read.
"""

from __future__ import annotations

import math

from nki_agent.builtin.plan import PoolPlan, Span
from nki_agent.builtin.print_steps import StepPrinter, layout_of
from nki_agent.builtin.regions import Axis, Regions, Window
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Load, Size, Store
from nki_agent.builtin.window_text import (
    plus,
    reducer,
    scaled,
    takes_pairs,
    takes_whole_lines,
    takes_windows,
)

NAMES = ("planes", "lines", "columns")
NEUTRAL = {"maximum": 'float("-inf")', "minimum": 'float("inf")', "add": "0.0", "multiply": "1.0"}


class PoolPrinter:
    """Prints one PoolPlan into a function body."""

    def __init__(self, plan: PoolPlan, source: Source, scope: Scope) -> None:
        """`scope` has the shapes of the tensors that the stage reads and writes."""
        self.plan = plan
        self.source = source
        self.scope = scope
        self.names = NAMES[len(NAMES) - len(plan.spans) :]
        self.is_banded = plan.band < max(plan.spans[0].num_out)
        keeps = plan.function in ("maximum", "minimum") or plan.outside is not None
        self.dtype = f"nl.{plan.dtype.value}" if keeps else "nl.float32"

    def print(self) -> None:
        """The whole pool."""
        self._sizes()
        first = self.names[0]
        with self.source.block("for r0 in range(0, num_rows, PARTITIONS):"):
            self.source.add("rows = min(PARTITIONS, num_rows - r0)")
            if not self.is_banded:
                self._tile("0", f"out_{first}")
                return
            with self.source.block(f"for z0 in range(0, out_{first}, {self.plan.band}):"):
                self.source.add(f"count = min({self.plan.band}, out_{first} - z0)")
                self._tile("z0", "count")

    def _sizes(self) -> None:
        plan, add, x = self.plan, self.source.add, self.plan.x
        add(f"num_rows = {self.scope.from_shapes(plan.rows, x)}")
        self.scope.names["num_rows"] = plan.rows
        y = next(s.access.tensor for s in plan.levels[-1] if isinstance(s, Store))
        for name, span in zip(self.names, plan.spans, strict=True):
            add(f"num_{name} = {self.scope.from_shapes(span.num_in, x, from_last=True)}")
            add(f"out_{name} = {self.scope.from_shapes(span.num_out, y, from_last=True)}")
        sizes = [f"num_{name}" for name in self.names]
        add(f"x_rows = {x}.reshape((num_rows, {', '.join(sizes)}))")
        add(f"num_pixels = {' * '.join(f'out_{name}' for name in self.names)}")
        pixels: Size = tuple(
            math.prod(span.num_out[i] for span in plan.spans) for i in range(len(plan.rows))
        )
        axes = [Axis(name="num_rows", size=plan.rows), Axis(name="num_pixels", size=pixels)]
        self.regions = Regions(self.source, self.scope, axes)
        for step in plan.levels[-1]:
            if isinstance(step, Load | Store):
                self.regions.prepare(layout_of(step.access))
        self.steps = StepPrinter(self.source, self.scope, row_level=0, cols="cols")

    def _reach(self, span: Span, count: str) -> str:
        """Elements that `count` windows cover."""
        rest = (span.kernel - 1) * span.dilation + 1 - span.stride
        return plus(scaled(count, span.stride), str(rest))

    def _tile(self, start: str, count: str) -> None:
        plan, add = self.plan, self.source.add
        others = self.names[1:]
        reaches = [self._reach(plan.spans[0], count)]
        reaches += [
            self._reach(span, f"out_{name}")
            for name, span in zip(others, plan.spans[1:], strict=True)
        ]
        sizes = [f"all_{name}" for name in self.names]
        if takes_whole_lines(plan):
            reaches[-1] = "num_columns"
        for size, reach in zip(sizes, reaches, strict=True):
            add(f"{size} = {reach}")
        shape = ", ".join(sizes)
        add(f"tile = nl.ndarray((rows, {shape}), dtype=nl.{plan.dtype.value}, buffer=nl.sbuf)")
        self._load(start)
        self._reduce(count)
        add(f"cols = {' * '.join([count, *(f'out_{name}' for name in others)])}")
        add(f"{plan.product.name} = pooled.reshape((rows, cols))")
        for step in plan.levels[-1]:
            if isinstance(step, Store):
                inner = " * ".join(f"out_{name}" for name in others)
                begin = f"{start} * {inner}" if inner else start
                window = (
                    Window(start=begin, count="cols")
                    if self.is_banded
                    else Window(count="num_pixels")
                )
                windows = [Window(start="r0", count="rows"), window]
                text = self.regions.text(layout_of(step.access), windows)
                add(f"nisa.dma_copy(dst={text}, src={step.src.name})")
            else:
                self.steps.print(step, 0)

    def _load(self, start: str) -> None:
        """The part of the input that the windows cover, and the neutral element around it."""
        add, outside = self.source.add, self.plan.outside
        fill = NEUTRAL[self.plan.function] if outside is None else self.scope.number(outside)
        insides, sources = [], []
        rank = len(self.names)
        for axis, (name, span) in enumerate(zip(self.names, self.plan.spans, strict=True)):
            is_first = axis == 0 and self.is_banded
            begin = plus(scaled(start, span.stride), str(-span.before)) if axis == 0 else str(
                -span.before
            )  # fmt: skip
            if axis == rank - 1 and takes_whole_lines(self.plan):
                insides.append(":")
                sources.append(":")
                continue
            if not self._is_open(span):
                insides.append(":")
                shift = begin if is_first else "0"
                sources.append(f"{shift} : {plus(shift, f'all_{name}')}")
                continue
            add(f"low_{name}, high_{name} = inside({begin}, 1, all_{name}, num_{name})")
            insides.append(f"low_{name}:high_{name}")
            ends = [plus(f"{end}_{name}", begin) for end in ("low", "high")]
            add(f"from_{name}, to_{name} = {', '.join(ends)}")
            sources.append(f"from_{name}:to_{name}")
            for condition, part in (
                (f"low_{name} > 0", f":low_{name}"),
                (f"high_{name} < all_{name}", f"high_{name}:"),
            ):
                cut = ", ".join([":"] * (axis + 1) + [part] + [":"] * (rank - axis - 1))
                with self.source.block(f"if {condition}:"):
                    add(f"nisa.memset(dst=tile[{cut}], value={fill}, engine=nisa.engine.gpsimd)")
        dst = f"tile[:, {', '.join(insides)}]" if set(insides) != {":"} else "tile"
        add(f"nisa.dma_copy(dst={dst}, src=x_rows[r0 : r0 + rows, {', '.join(sources)}])")

    @staticmethod
    def _is_open(span: Span) -> bool:
        """Whether a window reaches over an end."""
        reach = (span.kernel - 1) * span.dilation - span.before
        pairs = zip(span.num_in, span.num_out, strict=True)
        return span.before > 0 or any((o - 1) * span.stride + reach >= n for n, o in pairs)

    def _reduce_windows(self) -> None:
        """Lines and columns at once."""
        planes, (lines, columns) = self.plan.spans[:-2], self.plan.spans[-2:]
        sizes = [f"all_{name}" for name in self.names]
        shape = ["rows", sizes[0] if planes else "1", *sizes[-2:]]
        self.source.add(
            f"pooled = pool_windows(tile.reshape(({', '.join(shape)})), high={lines.kernel},"
            f" wide={columns.kernel}, op=nl.{self.plan.function}, dtype={self.dtype})"
        )

    def _reduce(self, count: str) -> None:
        """One axis after the other: the last one first, or last where runs of it go faster."""
        add, plan, rank = self.source.add, self.plan, len(self.names)
        tile = "tile"
        has_pairs = takes_pairs(plan)
        axes = range(rank) if has_pairs else range(rank - 1, -1, -1)
        done: dict[int, str] = {}
        if takes_windows(plan):
            tile = "pooled"
            self._reduce_windows()
            axes = range(rank - 3, -1, -1)
            done = {axis: count if axis == 0 else f"out_{self.names[axis]}"
                    for axis in (rank - 2, rank - 1)}  # fmt: skip
        for axis in axes:
            span, name = plan.spans[axis], self.names[axis]
            result = count if axis == 0 else f"out_{name}"
            if span.kernel == 1 and span.stride == 1:
                continue
            sizes = [done.get(i, f"all_{n}") for i, n in enumerate(self.names)]
            before, after = sizes[:axis], sizes[axis + 1 :]
            shape = ["rows", " * ".join(before) or "1", sizes[axis], " * ".join(after) or "1"]
            options = [
                f"window={span.kernel}",
                f"step={span.stride}",
                f"count={result}",
                f"op=nl.{plan.function}",
                f"dtype={self.dtype}",
            ]
            if span.dilation != 1:
                options.append(f"dilation={span.dilation}")
            function = reducer(plan, axis)
            if function == "pool_columns":
                options.insert(2, f"before={span.before}")
                shape = ["rows", " * ".join(before), sizes[axis]]
                made = f"{tile}.reshape(({', '.join(shape)})), {', '.join(options)}"
                add(f"pooled = pool_columns({made})")
                tile, done[axis] = "pooled", result
                continue
            add(f"pooled = {function}({tile}.reshape(({', '.join(shape)})), {', '.join(options)})")
            tile, done[axis] = "pooled", result
        if tile == "tile":
            add("pooled = tile")
