"""Prints two products with elementwise steps between them, one block of keys at a time.

Law: the second product of a block is issued two blocks behind its steps, so that the Tensor Engine
need not wait for them; the text fits any number of queries and keys.
"""

from __future__ import annotations

from nki_agent.builtin.chain_plan import ChainPlan
from nki_agent.builtin.plan import Plan
from nki_agent.builtin.print_products import Loops, call_loader, swap_axes
from nki_agent.builtin.print_steps import StepPrinter, layout_of, signed, step_of, tile_of
from nki_agent.builtin.regions import Axis, Regions, Window
from nki_agent.builtin.text import PartScope, Scope, Source
from nki_agent.builtin.tile_steps import (
    Access,
    AffineSelect,
    Kind,
    Load,
    Number,
    Size,
    Step,
    Tile,
)

ADD_UP = '''def add_up(weights, values, results):
    """Adds weights [K, M] times values [K, N] to results, each of up to 128 rows of M."""
    start = 0
    for result in results:
        end = start + result.shape[0]
        nisa.nc_matmul(dst=result, stationary=weights[:, start:end], moving=values)
        start = end
'''
BLOCKS_AHEAD = 2
"""Blocks whose steps run while the Tensor Engine is at an earlier one."""


def chain_helpers(plan: Plan) -> list[str]:
    """The helper functions that such stages of a plan call."""
    return [ADD_UP] if any(isinstance(stage, ChainPlan) for stage in plan.stages) else []


class ChainPrinter:
    """Prints one ChainPlan into a function body."""

    def __init__(
        self, plan: ChainPlan, source: Source, scope: Scope, *, helpers: Source, prefix: str
    ) -> None:
        """`helpers` takes the function of a block, whose name begins with `prefix`."""
        self.plan = plan
        self.source = source
        self.scope = scope
        self.helpers = helpers
        self.weigh = f"{prefix}weigh"
        self.loops = Loops(plan.batch, source, scope)
        self.last = len(plan.batch) + 1
        self.parts: dict[Access, str] = {}
        self.positions: dict[Access, str] = {}
        self.factors: dict[str, Number] = {}

    def print(self) -> None:
        """The whole stage."""
        self._define_weigh()
        plan, add = self.plan, self.source.add
        q, k, v = plan.q.tensor, plan.k.tensor, plan.v.tensor
        self.loops.name_sizes(
            q,
            num_queries=(plan.queries, q),
            num_keys=(plan.keys, k),
            depth=(plan.depth, f"-{q}"),
            value_depth=(plan.value_depth, f"-{v}"),
        )
        add("depth_tiles = (depth + PARTITIONS - 1) // PARTITIONS")
        add("key_tiles = (num_keys + PARTITIONS - 1) // PARTITIONS")
        queries, keys = ("num_queries", plan.queries), ("num_keys", plan.keys)
        depth, value = ("depth", plan.depth), ("value_depth", plan.value_depth)
        self.q_access = swap_axes(plan.q)
        self.q = self._regions((queries, depth), self.q_access)
        self.k = self._regions((keys, depth), plan.k)
        self.v = self._regions((keys, value), plan.v)
        self.out = self._regions((queries, value), plan.out)
        self.around = Regions(self.source, self.scope, self.loops.axes(keys, queries))
        for steps in plan.levels:
            for step in steps:
                if isinstance(step, Load):
                    self.around.prepare(layout_of(step.access))
        self.steps = StepPrinter(self.source, self.scope, row_level=self.last, cols="num_queries")
        self._batch(0)

    def _regions(self, minor: tuple[tuple[str, Size], tuple[str, Size]], access: Access) -> Regions:
        axes: list[Axis] = self.loops.axes(*minor)
        regions = Regions(self.source, self.scope, axes)
        regions.prepare(layout_of(access))
        return regions

    # -- the loops --------------------------------------------------------------------------------
    def _batch(self, level: int) -> None:
        for step in self.plan.levels[level] if level < self.last else ():
            self._step(step, level)
        if level < len(self.plan.batch):
            with self.loops.loop(level):
                self._batch(level + 1)
            return
        self._operands()
        with self.source.block("for q0 in range(0, num_queries, BANK):"):
            self._queries()

    def _step(self, step: Step, level: int) -> None:
        """A step that belongs to all blocks."""
        if not isinstance(step, Load):
            self.steps.print(step, level)
            return
        self.steps.allocate(step.dst)
        every = Window(count="num_queries") if step.dst.is_wide else Window(count="1")
        windows = self.loops.windows(Window(count="1"), every)
        text = self.around.text(layout_of(step.access), windows, spread="PARTITIONS")
        self.source.add(f"nisa.dma_copy(dst={step.dst.name}, src={text})")

    def _operands(self) -> None:
        """Keys and queries with their depth on the partitions, values with the keys there."""
        plan = self.plan
        depth, value = Window(count="depth"), Window(count="value_depth")
        self.source.note("Keys and queries with their depth on the partitions, values with the keys there.")
        for name, count, regions, access in (
            ("k_turned", "num_keys", self.k, plan.k),
            ("q_turned", "num_queries", self.q, self.q_access),
        ):
            self._tile(name, f"(PARTITIONS, depth_tiles, {count})", plan.dtype.value)
            text = regions.text(layout_of(access), self.loops.windows(Window(count=count), depth))
            self.source.add(call_loader(name, text, plan.rows_each))
        self._tile("v_kept", "(PARTITIONS, key_tiles, value_depth)", plan.value_dtype.value)
        text = self.v.text(
            layout_of(plan.v), self.loops.windows(Window(count="num_keys"), value)
        )
        self.source.add(f"load_blocks(v_kept, {text})")

    def _tile(self, name: str, shape: str, dtype: str, *, memory: str = "sbuf") -> None:
        self.source.add(f"{name} = nl.ndarray({shape}, dtype=nl.{dtype}, buffer=nl.{memory})")

    # -- one group of queries ---------------------------------------------------------------------
    def _queries(self) -> None:
        add, plan = self.source.add, self.plan
        add("group = min(BANK, num_queries - q0)")
        add("results = []")
        with self.source.block("for r0 in range(0, group, PARTITIONS):"):
            add("rows = min(PARTITIONS, group - r0)")
            self._tile("result", "(rows, value_depth)", "float32", memory="psum")
            add("results.append(result)")
        self.source.note(f"The Tensor Engine adds up {BLOCKS_AHEAD} blocks behind the others' steps.")
        add("waiting = []")
        end = "num_keys"
        if plan.ahead is not None:
            self.source.note("No query of the group sees a later key.")
            shift = f" + {self.scope.size(plan.ahead)}" if any(plan.ahead) else ""
            add(f"end = min(num_keys, q0 + group{shift})")
            end = "end"
        with self.source.block(f"for k0 in range(0, {end}, PARTITIONS):"):
            self._block()
        with self.source.block("for block in waiting:"):
            add("add_up(*block)")
        with self.source.block("for number in range(len(results)):"):
            self._store()

    def _block(self) -> None:
        """One block of keys."""
        add, plan = self.source.add, self.plan
        add("rows = min(PARTITIONS, num_keys - k0)")
        first = "q0"
        if plan.ahead is not None:
            self.source.note("Queries in front of these keys do not see them.")
            shift = f" - {self.scope.size(plan.ahead)}" if any(plan.ahead) else ""
            add(f"skipped = max(0, k0{shift} - q0) // PARTITIONS")
            add("first = q0 + skipped * PARTITIONS")
            first = "first"
        add("cols = q0 + group - first" if first == "first" else "cols = group")
        seen = f"{first} : {first} + cols"
        given = ["k_turned[:, :, k0 : k0 + rows]", f"q_turned[:, :, {seen}]"]
        rows, cols = Window(start="k0", count="rows"), Window(start=first, count="cols")
        for access in self.parts:
            spread = "" if any(access.strides[-2]) else "rows"
            windows = self.loops.windows(rows, cols)
            given.append(self.around.text(layout_of(access), windows, spread=spread))
        for tile in self._kept():
            given.append(f"{tile.name}[:, {seen}]" if tile.is_wide else tile.name)
        given += [self._position(access, first) for access in self.positions]
        given += [self.scope.number(factor) for factor in self.factors.values()]
        add(f"weights = {self.weigh}({', '.join([*given, 'depth'])})")
        results = "results[skipped:]" if plan.ahead is not None else "results"
        add(f"waiting.append((weights, v_kept[:rows, k0 // PARTITIONS, :], {results}))")
        with self.source.block(f"if len(waiting) > {BLOCKS_AHEAD}:"):
            add("add_up(*waiting.pop(0))")

    def _store(self) -> None:
        add = self.source.add
        add("result = results[number]")
        self._tile("out_tile", "(result.shape[0], value_depth)", self.plan.out_dtype.value)
        add("nisa.tensor_copy(dst=out_tile, src=result)")
        rows = Window(start="q0 + number * PARTITIONS", count="result.shape[0]")
        windows = self.loops.windows(rows, Window(count="value_depth"))
        text = self.out.text(layout_of(self.plan.out), windows)
        add(f"nisa.dma_copy(dst={text}, src=out_tile)")

    def _position(self, access: Access, first: str) -> str:
        """Where the whole numbers of a block begin."""
        terms = [signed(self.scope, access.offset)] if any(access.offset) else []
        for start, stride in zip((*self.loops.names, "k0", first), access.strides, strict=True):
            if any(stride):
                terms.append(step_of(start, signed(self.scope, stride)))
        return " + ".join(terms).replace("+ -", "- ") or "0"

    def _kept(self) -> list[Tile]:
        """Tiles made before the blocks that their steps need."""
        found = [
            tile_of(step) for steps in self.plan.levels[: self.last] for step in steps
        ]
        return list(dict.fromkeys(found))

    # -- one block --------------------------------------------------------------------------------
    def _define_weigh(self) -> None:
        source, plan = Source(depth=1), self.plan
        scope = PartScope({}, {"depth": plan.depth})
        printer = StepPrinter(source, scope, row_level=self.last, cols="cols")
        printer.position = self._position_in_block
        source.add('"""The weights of a block of keys for queries: [keys, queries]."""')
        source.add("rows, cols = k_turned.shape[2], q_turned.shape[2]")
        source.add("product = nl.ndarray((rows, cols), dtype=nl.float32, buffer=nl.psum)")
        with source.block("for k in range(k_turned.shape[1]):"):
            source.add("size = min(PARTITIONS, depth - k * PARTITIONS)")
            source.add(
                "nisa.nc_matmul(dst=product, stationary=k_turned[:size, k, :],"
                " moving=q_turned[:size, k, :])"
            )
        for step in plan.levels[self.last]:
            self._step_in_block(step, printer)
        source.add(f"return {plan.weights.name}")
        self.factors = scope.given
        given = ["k_turned", "q_turned", *self.parts.values(), *(t.name for t in self._kept())]
        given += [*self.positions.values(), *self.factors, "depth"]
        self.helpers.add()
        self.helpers.add()
        self.helpers.add(f"def {self.weigh}({', '.join(given)}):")
        self.helpers.lines.extend(source.lines)

    def _step_in_block(self, step: Step, printer: StepPrinter) -> None:
        match step:
            case Load():
                name = _name_once(self.parts, step.access, f"{step.access.tensor}_part")
                printer.allocate(step.dst)
                printer.source.add(f"nisa.dma_copy(dst={step.dst.name}, src={name})")
            case AffineSelect() if step.dst == step.data and (needed := self._needed(step)):
                with printer.source.block(f"if {needed}:"):
                    printer.print(step, self.last)
            case _:
                printer.print(step, self.last)

    def _position_in_block(self, access: Access, tile: Tile) -> tuple[str, str, str]:
        name = _name_once(self.positions, access, "position")
        row, col = (str(s[0]) for s in access.strides[-2:])
        pattern = f"[[{col}, cols]]" if tile.is_wide else "[[1, 1]]"
        return pattern, name, row if tile.kind in (Kind.FULL, Kind.ROW) else "0"

    def _needed(self, step: AffineSelect) -> str:
        """When a choice by position changes a block: not where its furthest corner passes."""
        row, col = (set(s) for s in step.access.strides[-2:])
        if (row, col) not in (({1}, {-1}), ({-1}, {1})):
            return ""
        name = _name_once(self.positions, step.access, "position")
        falls, rises = ("cols", "rows") if row == {1} else ("rows", "cols")
        match step.op:
            case "greater_equal":
                return f"{name} - {falls} + 1 < 0"
            case "greater":
                return f"{name} - {falls} + 1 <= 0"
            case "less_equal":
                return f"{name} + {rises} - 1 > 0"
            case "less":
                return f"{name} + {rises} - 1 >= 0"
            case _:
                return ""


def _name_once(names: dict[Access, str], access: Access, wanted: str) -> str:
    """The argument that brings what belongs to an access."""
    if access not in names:
        taken = sum(name == wanted or name.startswith(f"{wanted}_") for name in names.values())
        names[access] = wanted if not taken else f"{wanted}_{taken + 1}"
    return names[access]
