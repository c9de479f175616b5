"""Prints two products with elementwise steps between them, one block of keys at a time.

Law: each part of a block's steps, and then its second product, is issued one block behind the part
before it, so that no engine waits; the text fits any number of queries and keys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from nki_agent.builtin.chain_plan import ChainPlan
from nki_agent.builtin.columns import column_tiles
from nki_agent.builtin.plan import Plan
from nki_agent.builtin.print_columns import LOAD_COLUMNS, ColumnPrinter
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
    step_reads,
    step_writes,
)

ADD_UP = '''def add_up(weights, values, results, skipped, outs):
    """Adds weights [K, M] times values [K, N] to results behind the skipped, 128 rows of M each.

    With the last values come the parts of the output where all results belong.
    """
    start = 0
    for result in results[skipped:]:
        end = start + result.shape[0]
        nisa.nc_matmul(dst=result, stationary=weights[:, start:end], moving=values)
        start = end
    for number in range(len(outs)):
        out_tile = nl.ndarray(results[number].shape, dtype=outs[number].dtype, buffer=nl.sbuf)
        nisa.activation(dst=out_tile, op=nl.copy, data=results[number])
        nisa.dma_copy(dst=outs[number], src=out_tile)
'''


MULTIPLY_KEYS = '''def multiply_keys(dst, k_turned, q_turned, depth, ahead):
    """All products of keys and queries that see them, into dst [128, block of keys, queries].

    A query sees keys up to `ahead` behind its own position.
    """
    num_keys, num_queries = k_turned.shape[2], q_turned.shape[2]
    for k0 in range(0, num_keys, PARTITIONS):
        rows = min(PARTITIONS, num_keys - k0)
        for q0 in range(max(0, k0 - ahead) // BANK * BANK, num_queries, BANK):
            cols = min(BANK, num_queries - q0)
            product = nl.ndarray((rows, cols), dtype=nl.float32, buffer=nl.psum)
            for k in range(k_turned.shape[1]):
                size = min(PARTITIONS, depth - k * PARTITIONS)
                nisa.nc_matmul(
                    dst=product,
                    stationary=k_turned[:size, k, k0 : k0 + rows],
                    moving=q_turned[:size, k, q0 : q0 + cols],
                )
            nisa.activation(
                dst=dst[:rows, k0 // PARTITIONS, q0 : q0 + cols], op=nl.copy, data=product
            )
'''


def chain_helpers(plan: Plan) -> list[str]:
    """The helper functions that such stages of a plan call."""
    chains = [stage for stage in plan.stages if isinstance(stage, ChainPlan)]
    is_shared = any(chain.is_shared for chain in chains)
    found = [ADD_UP] * bool(chains)
    found += [MULTIPLY_KEYS] * is_shared
    return found + [LOAD_COLUMNS] * any(chain.columns for chain in chains)


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
        self.num_parts = 1
        self.select_cols = "cols"
        read = {t for steps in plan.levels for step in steps for t in step_reads(step)}
        self.columns = [tile for tile in column_tiles(plan.columns) if tile in read]
        """Of all blocks; each takes its own."""

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
        self.source.note("A group of queries whose results take one PSUM bank.")
        add("tiles = max(1, min(BANK // PARTITIONS, BANK // value_depth))")
        add("most_queries = tiles * PARTITIONS")
        queries, keys = ("num_queries", plan.queries), ("num_keys", plan.keys)
        depth, value = ("depth", plan.depth), ("value_depth", plan.value_depth)
        self.q_access = swap_axes(plan.q)
        self.q = self._regions((queries, depth), self.q_access)
        self.k = self._regions((keys, depth), plan.k)
        self.v = self._regions((keys, value), plan.v)
        self.out = self._regions((queries, value), plan.out)
        self.operands = [
            (*operand, _level_of(operand[-1]))
            for operand in (
                ("k_turned", "num_keys", self.k, plan.k),
                ("q_turned", "num_queries", self.q, self.q_access),
                ("v_kept", "num_keys", self.v, plan.v),
            )
        ]
        self.shared_level = max(self.operands[0][-1], self.operands[1][-1])
        self.column_printer = ColumnPrinter(
            steps=plan.columns,
            source=self.source,
            scope=self.scope,
            loops=self.loops,
            rows=keys,
            blocks="key_tiles",
        )
        self.around = Regions(self.source, self.scope, self.loops.axes(keys, queries))
        for steps in plan.levels:
            for step in steps:
                if isinstance(step, Load):
                    self.around.prepare(layout_of(step.access))
        self.steps = StepPrinter(self.source, self.scope, row_level=self.last, cols="num_queries")
        self.source.note(
            "Each part of a block runs one block behind the one before it, so that no engine waits."
        )
        names = [f"before_{number + 2}" for number in range(self.num_parts)]
        for name in names:
            add(f"{name} = []")
        self._batch(0)
        for number in range(self.num_parts):
            with self.source.block(f"for block in {names[number]}:"):
                self._pass_on(number)

    def _pass_on(self, number: int) -> None:
        """Run the next part of a block, or its second product after the last."""
        if number + 1 == self.num_parts:
            self.source.add("add_up(*block)")
            return
        made = f"{self.weigh}_{number + 2}(*block[0])"
        self.source.add(f"before_{number + 3}.append(({made}, *block[1:]))")

    def _regions(self, minor: tuple[tuple[str, Size], tuple[str, Size]], access: Access) -> Regions:
        axes: list[Axis] = self.loops.axes(*minor)
        regions = Regions(self.source, self.scope, axes)
        regions.prepare(layout_of(access))
        return regions

    # -- the loops --------------------------------------------------------------------------------
    def _batch(self, level: int) -> None:
        for step in self.plan.levels[level] if level < self.last else ():
            self._step(step, level)
        for operand in self.operands:
            if operand[-1] == level:
                self._operand(*operand[:-1])
        if level == self.shared_level and self.plan.is_shared:
            self._products()
        self.column_printer.print(level)
        if level < len(self.plan.batch):
            with self.loops.loop(level):
                self._batch(level + 1)
            return
        with self.source.block("for q0 in range(0, num_queries, most_queries):"):
            self._queries()

    def _products(self) -> None:
        """What all heads multiply their weights by."""
        self.source.note("The inner loops share these products.")
        self._tile("products", "(PARTITIONS, key_tiles, num_queries)", "float32")
        ahead = "num_keys"
        if self.plan.ahead is not None:
            ahead = self.scope.size(self.plan.ahead) if any(self.plan.ahead) else "0"
        self.source.add(f"multiply_keys(products, k_turned, q_turned, depth, {ahead})")

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

    def _operand(self, name: str, count: str, regions: Regions, access: Access) -> None:
        """Keys or queries with their depth on the partitions, or values with the keys there."""
        plan = self.plan
        is_value = name == "v_kept"
        shape = "key_tiles, value_depth" if is_value else f"depth_tiles, {count}"
        dtype = plan.value_dtype if is_value else plan.dtype
        self._tile(name, f"(PARTITIONS, {shape})", dtype.value)
        minor = Window(count="value_depth" if is_value else "depth")
        text = regions.text(layout_of(access), self.loops.windows(Window(count=count), minor))
        is_loaded = f"load_blocks({name}, {text})"
        self.source.add(is_loaded if is_value else call_loader(name, text, plan.rows_each))

    def _tile(self, name: str, shape: str, dtype: str, *, memory: str = "sbuf") -> None:
        self.source.add(f"{name} = nl.ndarray({shape}, dtype=nl.{dtype}, buffer=nl.{memory})")

    # -- one group of queries ---------------------------------------------------------------------
    def _queries(self) -> None:
        add, plan = self.source.add, self.plan
        add("group = min(most_queries, num_queries - q0)")
        add("results, outs = [], []")
        with self.source.block("for r0 in range(q0, q0 + group, PARTITIONS):"):
            add("rows = min(PARTITIONS, q0 + group - r0)")
            self._tile("result", "(rows, value_depth)", "float32", memory="psum")
            add("results.append(result)")
            rows = Window(start="r0", count="rows")
            windows = self.loops.windows(rows, Window(count="value_depth"))
            add(f"outs.append({self.out.text(layout_of(plan.out), windows)})")
        end = "num_keys"
        if plan.ahead is not None:
            self.source.note("No query of the group sees a later key.")
            shift = f" + {self.scope.size(plan.ahead)}" if any(plan.ahead) else ""
            add(f"end = min(num_keys, q0 + group{shift})")
            end = "end"
        with self.source.block(f"for k0 in range(0, {end}, PARTITIONS):"):
            self._block(end)

    def _block(self, end: str) -> None:
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
        if plan.is_shared:
            given = [f"products[:rows, k0 // PARTITIONS, {seen}]"]
        given += [self.column_printer.part(tile, "k0 // PARTITIONS") for tile in self.columns]
        rows, cols = Window(start="k0", count="rows"), Window(start=first, count="cols")
        for access in self.parts:
            spread = "" if any(access.strides[-2]) else "rows"
            windows = self.loops.windows(rows, cols)
            given.append(self.around.text(layout_of(access), windows, spread=spread))
        given += [f"{t.name}[:, {seen}]" if t.is_wide else t.name for t in self._kept()]
        given += [self._position(access, first) for access in self.positions]
        given += [self.scope.number(factor) for factor in self.factors.values()]
        skipped = "skipped" if plan.ahead is not None else "0"
        add("values = v_kept[:rows, k0 // PARTITIONS, :]")
        add(f"last = outs if k0 + PARTITIONS >= {end} else []")
        given += ["depth"] * (not plan.is_shared)
        call = f"{self.weigh}({', '.join(given)})"
        add(f"before_2.append(({call}, values, results, {skipped}, last))")
        for number in range(self.num_parts):
            with self.source.block(f"if len(before_{number + 2}) > 1:"):
                add(f"block = before_{number + 2}.pop(0)")
                self._pass_on(number)

    def _position(self, access: Access, first: str) -> str:
        """Where the whole numbers of a block begin."""
        terms = [signed(self.scope, access.offset)] if any(access.offset) else []
        for start, stride in zip((*self.loops.names, "k0", first), access.strides, strict=True):
            if any(stride):
                terms.append(step_of(start, signed(self.scope, stride)))
        return " + ".join(terms).replace("+ -", "- ") or "0"

    def _kept(self) -> list[Tile]:
        """Tiles made before the blocks that their steps need."""
        found = [tile_of(step) for steps in self.plan.levels[: self.last] for step in steps]
        return list(dict.fromkeys(found))

    # -- one block --------------------------------------------------------------------------------
    def _define_weigh(self) -> None:
        """One function for each part of the steps; each is given what the one before hands on."""
        plan = self.plan
        scope = PartScope({}, {"depth": plan.depth})
        printer = StepPrinter(Source(), scope, row_level=self.last, cols="cols")
        printer.position = self._position_in_block
        steps = plan.levels[self.last]
        bounds = [0, *plan.cuts, len(steps)]
        self.num_parts = len(bounds) - 1
        bodies = []
        for start, end in pairwise(bounds):
            printer.source = Source(depth=1)
            if start == 0 and not plan.is_shared:
                _first_product(printer.source)
            for step in steps[start:end]:
                self._step_in_block(step, printer)
            bodies.append(printer.source)
        self.factors = scope.given
        given = ["product"] if plan.is_shared else ["k_turned", "q_turned"]
        given += [t.name for t in self.columns]
        given += [*self.parts.values(), *(t.name for t in self._kept())]
        given += [*self.positions.values(), *self.factors] + ["depth"] * (not plan.is_shared)
        known = [*given, "product", *(t.name for step in steps for t in step_writes(step))]
        for number, body in enumerate(bodies):
            later = "\n".join(line for other in bodies[number + 1 :] for line in other.lines)
            later = later or plan.weights.name
            handed = [n for n in dict.fromkeys(known) if re.search(rf"\b{n}\b", later)]
            made = [n for n in handed if n in given or self._is_made(n, bounds[number + 1])]
            is_tuple = len(made) == 1 and number + 1 < self.num_parts
            body.add(f"return {', '.join(made)}{',' if is_tuple else ''}")
            self._part(number, body, given)
            given = made

    def _is_made(self, name: str, end: int) -> bool:
        steps = self.plan.levels[self.last][:end]
        return name == "product" or any(t.name == name for s in steps for t in step_writes(s))

    def _part(self, number: int, body: Source, given: Sequence[str]) -> None:
        name = f"{self.weigh}_{number + 1}" if number else self.weigh
        self.helpers.add()
        self.helpers.add()
        with self.helpers.block(f"def {name}({', '.join(given)}):"):
            if number == 0:
                self.helpers.add(
                    '"""The weights of a block of keys for queries: [keys, queries]."""'
                )
                shape = "k_turned.shape[2], q_turned.shape[2]"
                self.helpers.add(
                    f"rows, cols = {'product.shape' if self.plan.is_shared else shape}"
                )
            else:
                self.helpers.add('"""Goes on with the weights of a block."""')
                steps = self.plan.levels[self.last]
                wide = {t.name for s in steps for t in step_writes(s) if t.kind is Kind.FULL}
                tile = next(n for n in given if n == "product" or n in wide)
                text = body.text()
                sizes = [n if re.search(rf"\b{n}\b", text) else "_" for n in ("rows", "cols")]
                if sizes != ["_", "_"]:
                    self.helpers.add(f"{', '.join(sizes)} = {tile}.shape")
        self.helpers.lines.extend(body.lines)

    def _step_in_block(self, step: Step, printer: StepPrinter) -> None:
        match step:
            case Load():
                name = _name_once(self.parts, step.access, f"{step.access.tensor}_part")
                printer.allocate(step.dst)
                printer.source.add(f"nisa.dma_copy(dst={step.dst.name}, src={name})")
            case AffineSelect() if step.dst == step.data and (needed := self._needed(step)):
                with printer.source.block(f"if {needed}:"):
                    self._select(step, printer)
            case _:
                printer.print(step, self.last)

    def _select(self, step: AffineSelect, printer: StepPrinter) -> None:
        """A choice by position; where it changes the first columns alone, of these alone."""
        name = self.positions[step.access]
        is_ahead = set(step.access.strides[-2]) == {1}
        reach = {
            (True, "less_equal"): f"{name} + rows - 1",
            (True, "less"): f"{name} + rows",
            (False, "greater_equal"): f"rows - 1 - {name}",
            (False, "greater"): f"rows - {name}",
        }.get((is_ahead, step.op))
        if reach is not None:
            printer.source.note("Later queries see all of these keys.")
            printer.source.add(f"edge = min(cols, {reach})")
            part = replace(step.dst, name=f"{step.dst.name}[:, :edge]")
            printer.take(part)
            step = replace(step, dst=part, data=part)
        self.select_cols = "cols" if reach is None else "edge"
        printer.print(step, self.last)
        self.select_cols = "cols"

    def _position_in_block(self, access: Access, tile: Tile) -> tuple[str, str, str]:
        name = _name_once(self.positions, access, "position")
        row, col = (str(s[0]) for s in access.strides[-2:])
        pattern = f"[[{col}, {self.select_cols}]]" if tile.is_wide else "[[1, 1]]"
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


def _level_of(access: Access) -> int:
    """The innermost loop along which an operand moves."""
    return max((i + 1 for i, s in enumerate(access.strides[:-2]) if any(s)), default=0)


def _first_product(source: Source) -> None:
    source.add("product = nl.ndarray((rows, cols), dtype=nl.float32, buffer=nl.psum)")
    with source.block("for k in range(k_turned.shape[1]):"):
        source.add("size = min(PARTITIONS, depth - k * PARTITIONS)")
        source.add(
            "nisa.nc_matmul(dst=product, stationary=k_turned[:size, k, :],"
            " moving=q_turned[:size, k, :])"
        )


def _name_once(names: dict[Access, str], access: Access, wanted: str) -> str:
    """The argument that brings what belongs to an access."""
    if access not in names:
        taken = sum(name == wanted or name.startswith(f"{wanted}_") for name in names.values())
        names[access] = wanted if not taken else f"{wanted}_{taken + 1}"
    return names[access]
