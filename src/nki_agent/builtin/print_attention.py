"""Prints attention, one block of query rows at a time.

Three steps, each one block behind the step before it: scores, exponentials, values. So each engine
has another block's work while it would wait; the order of the calls is the order of each engine's
queue.
"""

from __future__ import annotations

import contextlib

from nki_agent.builtin.attention_parts import AttentionParts
from nki_agent.builtin.plan import AttentionPlan
from nki_agent.builtin.print_behind import BehindKeys
from nki_agent.builtin.print_head_rows import HeadRows
from nki_agent.builtin.print_more_depth import GIVEN as MORE_GIVEN
from nki_agent.builtin.print_more_depth import MoreScores, add_scores
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
    Store,
    Tile,
    step_reads,
)

STEPS_BEHIND = 4
"""Blocks under way behind the one that gets its scores, where these stay in PSUM."""


class AttentionPrinter(AttentionParts):
    """Prints one AttentionPlan into a function body."""

    def __init__(
        self, plan: AttentionPlan, source: Source, scope: Scope, *, helpers: Source, prefix: str
    ) -> None:
        """`helpers` takes the functions of a block, whose names begin with `prefix`."""
        self.plan = plan
        self.source = source
        self.scope = scope
        self.helpers = helpers
        self.score, self.weigh = f"{prefix}score", f"{prefix}weigh"
        self.exponentials = f"{prefix}exponentials"
        self.maxima, self.turn = f"{prefix}block_maxima", f"{prefix}turn_weights"
        self.finish, self.bias = f"{prefix}finish", f"{prefix}bias_of"
        self.loops = Loops(plan.batch, source, scope)
        self.heads = HeadRows(plan, source, scope, self.loops)
        self.behind: BehindKeys | None = None
        self.more: MoreScores | None = None
        if plan.more is not None:
            self.more = MoreScores(plan, plan.more, source, scope, self.loops)
        if plan.behind is not None:
            self.behind = BehindKeys(plan, plan.behind, source, scope, self.loops)
        self.dtype = f"nl.{plan.dtype.value}"
        self.value_dtype = f"nl.{plan.value_dtype.value}"
        self.last = len(plan.batch) + 1
        self.has_beside = plan.beside is not None
        self.parts: dict[Access, str] = {}
        self.positions: dict[Access, str] = {}
        self.factors: dict[str, Number] = {}
        moving = [i + 1 for a in (plan.k, plan.v) for i, s in enumerate(a.strides[:-2]) if any(s)]
        self.key_level = max(moving, default=0)
        """The loop in which keys and values change; heads that share them come after it."""

    def print(self) -> None:
        """The whole of attention."""
        self._define()
        plan, add = self.plan, self.source.add
        q, k, v = plan.q.tensor, plan.k.tensor, plan.v.tensor
        self.loops.name_sizes(
            q,
            num_queries=(plan.queries, q),
            num_keys=(plan.keys, k),
            depth=(plan.depth, f"-{q}"),
            value_depth=(plan.value_depth, f"-{v}"),
        )
        add("key_tiles = (num_keys + PARTITIONS - 1) // PARTITIONS")
        queries, keys = ("num_queries", plan.queries), ("num_keys", plan.keys)
        depth, value = ("depth", plan.depth), ("value_depth", plan.value_depth)
        self.q = self._regions((queries, depth), plan.q)
        own = keys if self.behind is None else self.behind.name_sizes()
        if self.more is not None:
            self.more.name_sizes()
        if plan.pages is None:
            self.k_access = swap_axes(plan.k)
            self.k = self._regions((own, depth), self.k_access)
            self.v = self._regions((own, value), plan.v)
        self.out = self._regions((queries, value), plan.out)
        self.around = Regions(self.source, self.scope, self.loops.axes(queries, keys))
        for steps in plan.levels:
            for step in steps:
                if isinstance(step, Load):
                    self.around.prepare(layout_of(step.access))
        self.steps = StepPrinter(self.source, self.scope, row_level=self.last, cols="num_keys")
        self._name_factor()
        self._prepare()
        self._batch(0)
        self._finish_all()

    def _define(self) -> None:
        """The functions of a block."""
        self._define_score()
        self._define_hidden_keys()
        if self.plan.scale is None:
            self._define_exponentials()
            self._define_weigh()
        else:
            self._define_maxima()
            self._define_bias()
            self._define_exponentials_of_blocks()
            self._define_weigh_with_sums()

    def _prepare(self) -> None:
        """What all blocks share."""
        add, depth = self.source.add, "depth"
        if self.plan.slope is not None:
            self.source.note("A row of positions follows, at a partition where engines may write.")
            add("slope_row = (depth + 31) // 32 * 32")
            depth = "slope_row"
        more = " + 1" if self.plan.slope is not None else ""
        add(
            f"depth_tiles = ({depth}{more} + PARTITIONS - 1) // PARTITIONS".replace(
                "+ 1 + PARTITIONS - 1", "+ PARTITIONS"
            )
        )
        if self._selects() or self.plan.mask is not None:
            self._make_identity()
        self.source.note(
            "Each step runs one block behind the one before it, so that no engine waits."
        )
        names = ["scored"] + ["weighted"] * (not self._weighs_at_once)
        names += ["turned", "weighed"] * (self.plan.scale is not None)
        add(f"{', '.join(names)} = {', '.join(['[]'] * len(names))}")

    @property
    def _weighs_at_once(self) -> bool:
        """Whether a block is weighed as it has exponentials: its values, the keys, are let go."""
        return self.plan.is_shared and self.plan.scale is None

    def _name_factor(self) -> None:
        scale = self.plan.scale
        if scale is not None and any(n != 1.0 for n in scale):
            self.source.add(f"scale = {self.scope.number(scale)}")

    def _regions(self, minor: tuple[tuple[str, Size], tuple[str, Size]], access: Access) -> Regions:
        axes: list[Axis] = self.loops.axes(*minor)
        regions = Regions(self.source, self.scope, axes)
        regions.prepare(layout_of(access))
        return regions

    # -- the loops --------------------------------------------------------------------------------
    def _batch(self, level: int) -> None:
        for step in self.plan.levels[level] if level < self.last else ():
            self._step(step, level)
        if level == self.key_level:
            self._keys_and_values()
        if level < len(self.plan.batch):
            if self.plan.loads_rows and level == len(self.plan.batch) - 1:
                self.heads.load()
            name = self.loops.names[level]
            with self.source.block(f"for {name} in range(num_{name}):"):
                self._batch(level + 1)
            return
        self._queries()
        self._blocks()

    def _blocks(self) -> None:
        """The loop over the queries."""
        with self.source.block("for r0 in range(0, num_queries, PARTITIONS):"):
            self._block()

    def _step(self, step: Step, level: int) -> None:
        """A step that belongs to all blocks of queries."""
        if not isinstance(step, Load):
            self.steps.print(step, level)
            return
        self.steps.allocate(step.dst)
        windows = self.loops.windows(Window(count="num_queries"), Window(count="num_keys"))
        text = self.around.text(layout_of(step.access), windows, spread="PARTITIONS")
        self.source.add(f"nisa.dma_copy(dst={step.dst.name}, src={text})")
        if step.dst == self.plan.beside:
            self._tile(self.source, "neg_beside", "(PARTITIONS, 1)", "nl.float32")
            self.source.add(
                "nisa.tensor_scalar(dst=neg_beside, data=beside, op0=nl.multiply,"
                f" operand0={self._unit_beside()})"
            )

    def _unit_beside(self) -> str:
        """What the score beside the others is multiplied by, to be taken off as theirs is."""
        return "-1.0"

    def _block(self) -> None:
        """One block of query rows."""
        add, plan = self.source.add, self.plan
        add("rows = min(PARTITIONS, num_queries - r0)")
        seen = self._seen_keys()
        rows = Window(start="r0", count="rows")
        given = [
            "q_turned[:, :, r0 : r0 + rows]",
            f"k_turned[:, :, {seen}]" if seen else "k_turned",
        ]
        given += ["masks"] * bool(self._selects()) + ["identity"] * (plan.mask is not None)
        if self.more is not None:
            keys = f"k_more[:, :, {seen}]" if seen else "k_more"
            given += ["q_more[:, :, r0 : r0 + rows]", keys, "depth_more"]
        given += [self._part(access, rows, seen) for access in self.parts]
        for tile in self._kept():
            given.append(f"{tile.name}[:, {seen}]" if seen and tile.is_wide else tile.name)
        given += [self._position(access) for access in self.positions]
        given += [self.scope.number(factor) for factor in self.factors.values()]
        windows = self.loops.windows(rows, Window(count="value_depth"))
        out = self.out.text(layout_of(plan.out), windows)
        depth = "depth" if plan.slope is None else "slope_row + 1"
        call = f"scores = {self.score}({', '.join([*given, depth])})"
        if plan.scale is None:
            add(call)
            self._finish_waiting()
            self._tile(self.source, "neg_row_max", "(rows, 1)", "nl.float32")
            add(
                "nisa.tensor_reduce(dst=neg_row_max, op=nl.maximum, data=scores, axis=1,"
                " negate=True)"
            )
        else:
            self._advance(call, f"maxima = {self.maxima}(scores)")
            add(f"neg_row_max = {self.bias}(maxima{self._scale})")
        if plan.beside is not None:
            add(
                "nisa.tensor_tensor(dst=neg_row_max, data1=neg_row_max, data2=neg_beside[:rows],"
                " op=nl.minimum)"
            )
        values = "v_kept[:, first_key // PARTITIONS :, :]" if plan.first_key else "v_kept"
        add(f"scored = [({out}, {values}, scores, neg_row_max{', beside' * self.has_beside})]")

    def _seen_keys(self) -> str:
        """Names the keys that a block sees; the slice of them, empty where it sees all."""
        plan, add = self.plan, self.source.add
        if plan.first_key is None and plan.last_key is None:
            return ""
        self.source.note("No query of the block sees another key.")
        if plan.first_key is not None:
            shift = _plus(signed(self.scope, plan.first_key) if any(plan.first_key) else "")
            add(f"first_key = max(0, r0{shift}) // PARTITIONS * PARTITIONS")
        if plan.last_key is not None:
            shift = _plus(signed(self.scope, plan.last_key) if any(plan.last_key) else "")
            add(f"end_key = min(num_keys, r0 + rows{shift})")
        start = "first_key " if plan.first_key is not None else ""
        return f"{start}: end_key" if plan.last_key is not None else f"{start}:"

    def _part(self, access: Access, rows: Window, seen: str) -> str:
        windows = self.loops.windows(rows, Window(count="num_keys"))
        spread = "" if any(access.strides[-2]) else "rows"
        text = self.around.text(layout_of(access), windows, spread=spread)
        return f"{text}[:, {seen}]" if seen and any(access.strides[-1]) else text

    def _position(self, access: Access) -> str:
        """Where the whole numbers of a block begin."""
        terms = [signed(self.scope, access.offset)] if any(access.offset) else []
        starts = [*self.loops.names, "r0", "first_key" if self.plan.first_key else ""]
        for start, stride in zip(starts, access.strides, strict=True):
            if any(stride) and start:
                terms.append(step_of(start, signed(self.scope, stride)))
        return " + ".join(terms).replace("+ -", "- ") or "0"

    def _kept(self) -> list[Tile]:
        """Tiles made before the blocks that the scores need."""
        plan = self.plan
        inner = [*plan.levels[self.last], *(plan.mask.steps if plan.mask is not None else ())]
        used = {tile for step in inner for tile in step_reads(step)}
        used |= {plan.mask.tile} if plan.mask is not None else set()
        found = [
            tile_of(step)
            for steps in plan.levels[: self.last]
            for step in steps
            if not isinstance(step, Store) and tile_of(step) in used
        ]
        return list(dict.fromkeys(found))

    def _finish_waiting(self) -> None:
        """Weigh what has exponentials, and take those of what has scores."""
        add = self.source.add
        exponentials = f"{self.exponentials}(*block{self._scale})"
        if self._weighs_at_once:
            with self.source.block("for block in scored:"):
                add(f"{self.weigh}(*{exponentials})")
            return
        with self.source.block("for block in weighted:"):
            add(f"{self.weigh}(*block)")
        add("weighted = []")
        with self.source.block("for block in scored:"):
            add(f"weighted.append({exponentials})")

    def _advance(self, *new: str) -> None:
        """Each block under way takes a step; `new` is what a new block is given on the way."""
        add = self.source.add
        score, maxima = new or ("", "")
        with self.source.block("for block in weighed:"):
            add(f"{self.finish}(*block)")
        for line in (score, "weighed = []"):
            if line:
                add(line)
        with self.source.block("for block in turned:"):
            add(f"weighed.append({self.weigh}(*block))")
        for line in (maxima, "turned = []"):
            if line:
                add(line)
        with self.source.block("for block in weighted:"):
            add(f"turned.append({self.turn}(*block))")
        add("weighted = []")
        with self.source.block("for block in scored:"):
            add(f"weighted.append({self.exponentials}(*block{self._scale}))")

    def _finish_all(self) -> None:
        """What is under way when all blocks have scores."""
        if self.plan.scale is None:
            self._finish_waiting()
            if not self._weighs_at_once:
                with self.source.block("for block in weighted:"):
                    self.source.add(f"{self.weigh}(*block)")
            return
        with self.source.block(f"for _ in range({STEPS_BEHIND}):"):
            self._advance()
            self.source.add("scored = []")

    def _load_turned(self, name: str, text: str) -> str:
        """The call that loads queries or keys with their depth on the partitions."""
        if self.plan.loads_turned:
            return f"load_turned({name}, {text})"
        return call_loader(name, text, self.plan.rows_each)

    def _queries(self) -> None:
        self._tile(self.source, "q_turned", "(PARTITIONS, depth_tiles, num_queries)", self.dtype)
        self._fill_beside("q_turned")
        every = Window(count="num_queries")
        text = self.q.text(layout_of(self.plan.q), self.loops.windows(every, Window(count="depth")))
        in_rows = self.plan.loads_rows and self.plan.pages is None
        load = self._load_turned("q_turned", text)
        self.source.add(self.heads.turn("q_turned") if in_rows else load)
        if self.more is not None:
            self.more.load_queries()

    def _fill_beside(self, name: str) -> None:
        """What lies beside the depth of queries or keys: positions, and what they are times."""
        slope = self.plan.slope
        if slope is None:
            return
        add, is_keys = self.source.add, name == "k_turned"
        add(
            f"nisa.memset(dst={name}[:, depth_tiles - 1, :], value={0.0 if is_keys else 1.0},"
            " engine=nisa.engine.gpsimd)"
        )
        at = "slope_row % PARTITIONS"
        add(f"{name[0]}_row = {name}[{at} : {at} + 1, depth_tiles - 1, :]")
        if is_keys:
            add(f"nisa.iota(dst=k_row, pattern=[[{slope.step}, num_keys]], offset=0)")
            return
        add(
            f"nisa.tensor_scalar(dst=q_row, data=q_row, op0=nl.multiply,"
            f" operand0={slope.tile.name}[{at} : {at} + 1], op1=nl.multiply,"
            f" operand1=1.0 / {self.scope.number(slope.factor)})"
        )

    def _keys_and_values(self) -> None:
        whole = Window(count="num_keys" if self.behind is None else "num_first")
        self.source.note("Keys with their depth on the partitions, values with the keys there.")
        self._tile(self.source, "k_turned", "(PARTITIONS, depth_tiles, num_keys)", self.dtype)
        self._fill_beside("k_turned")
        self._load_keys(whole)
        shape, part = "(PARTITIONS, key_tiles, value_depth)", "v_kept"
        if self.plan.scale is not None:
            shape, part = "(PARTITIONS, key_tiles, value_depth + 1)", "v_kept[:, :, :value_depth]"
        if self.plan.pages is not None and self.plan.scale is None:
            self.source.add(f"v_kept = {self.heads.view()}")
            return
        self._tile(self.source, "v_kept", shape, self.value_dtype)
        if self.plan.loads_rows:
            self.source.add(self.heads.take(part))
        else:
            text = self.v.text(
                layout_of(self.plan.v), self.loops.windows(whole, Window(count="value_depth"))
            )
            kind = "runs" if self.plan.has_runs else "blocks"
            self.source.add(f"load_{kind}({part}, {text})")
            if self.behind is not None:
                self.behind.load_values(part)
        if self.plan.is_shared:
            self._turn_values(part)
        if self.plan.scale is not None:
            self.source.note("A column of ones adds up the weights.")
            self.source.add(
                "nisa.memset(dst=v_kept[:, :, value_depth:], value=1.0, engine=nisa.engine.gpsimd)"
            )

    def _load_keys(self, whole: Window) -> None:
        if self.more is not None:
            self.more.load_keys()
        if self.plan.loads_rows:
            self.source.add(self.heads.turn("k_turned"))
        elif not self.plan.is_shared:
            text = self.k.text(
                layout_of(self.k_access), self.loops.windows(whole, Window(count="depth"))
            )
            part = "k_turned" if self.behind is None else "k_turned[:, :, :num_first]"
            self.source.add(self._load_turned(part, text))
            if self.behind is not None:
                self.behind.load_keys(self._load_turned)

    # -- one block of queries ---------------------------------------------------------------------

    def _define_score(self) -> None:
        source, plan = Source(depth=1), self.plan
        scope = PartScope({}, {"depth": plan.depth})
        printer = StepPrinter(
            source, scope, row_level=self.last, cols="cols", vector_cols="n0 : n0 + cols"
        )
        printer.position = self._position_in_block
        in_psum = plan.scale is not None
        where = "banks of PSUM" if in_psum else "float32"
        source.add(f'"""Scores of a block of queries against keys, in {where}."""')
        source.add("rows, num_keys = q_turned.shape[2], k_turned.shape[2]")
        if in_psum:
            source.add("scores = []")
        else:
            self._tile(source, "scores", "(rows, num_keys)", "nl.float32")
        for step in plan.mask.steps if plan.mask is not None else ():
            if isinstance(step, Load):
                self._step_in_block(step, printer)
        with source.block("for n0 in range(0, num_keys, BANK):"):
            source.add("cols = min(BANK, num_keys - n0)")
            self._tile(source, "product", "(rows, cols)", "nl.float32", memory="psum")
            with source.block("for k in range(k_turned.shape[1]):"):
                source.add("size = min(PARTITIONS, depth - k * PARTITIONS)")
                source.add(
                    "nisa.nc_matmul(dst=product, stationary=q_turned[:size, k, :],"
                    " moving=k_turned[:size, k, n0 : n0 + cols])"
                )
            if self.more is not None:
                add_scores(source)
            self._add_mask(source, printer)
            if in_psum:
                self._hide(source)
                source.add("scores.append(product)")
            else:
                source.add(f"{plan.scores.name} = scores[:, n0 : n0 + cols]")
                printer.take(plan.scores)
                for step in plan.levels[self.last]:
                    self._step_in_block(step, printer)
        source.add("return scores")
        self.factors = scope.given
        given = ["masks"] * bool(self._selects()) + ["identity"] * (plan.mask is not None)
        given += MORE_GIVEN if self.more is not None else ()
        given += [*self.parts.values(), *(t.name for t in self._kept())]
        given += [*self.positions.values(), *self.factors]
        self.helpers.add()
        self.helpers.add()
        self.helpers.add(
            f"def {self.score}({', '.join(['q_turned', 'k_turned', *given, 'depth'])}):"
        )
        self.helpers.lines.extend(source.lines)

    def _add_mask(self, source: Source, printer: StepPrinter) -> None:
        """Adds what hides keys by a product with the identity."""
        mask = self.plan.mask
        if mask is None:
            return
        for step in mask.steps:
            if not isinstance(step, Load):
                printer.print(step, self.last)
        source.note("The product with the identity adds the mask to what is in PSUM.")
        source.add(
            "nisa.nc_matmul(dst=product, stationary=identity[:rows, :rows],"
            f" moving={printer.ref(mask.tile, self.last)})"
        )

    def _hide(self, source: Source) -> None:
        """Adds what puts hidden keys far below all others: a product with the identity."""
        for number, step in enumerate(self._selects()):
            assert isinstance(step, AffineSelect)
            name = _name_once(self.positions, step.access, "position")
            needed = self._needed(step)
            col = str(step.access.strides[-1][0])
            start = step_of("n0", col)
            offset = f"{name} + {start}".replace("+ -", "- ") if col != "0" else name
            with source.block(f"if {needed}:") if needed else contextlib.nullcontext():
                source.add(f"hidden = {self.hidden_keys(number)}(masks, {offset}, rows, cols)")
                source.add(
                    'nisa.nc_matmul(dst=product, stationary=masks["identity"][:rows, :rows],'
                    " moving=hidden)"
                )

    def _step_in_block(self, step: Step, printer: StepPrinter) -> None:
        match step:
            case Load():
                name = _name_once(self.parts, step.access, f"{step.access.tensor}_part")
                cut = "[:, n0 : n0 + cols]" if step.dst.is_wide else ""
                printer.allocate(step.dst)
                printer.source.add(f"nisa.dma_copy(dst={step.dst.name}, src={name}{cut})")
            case AffineSelect() if step.dst == step.data:
                needed = self._needed(step)
                if not needed:
                    printer.print(step, self.last)
                    return
                with printer.source.block(f"if {needed}:"):
                    printer.print(step, self.last)
            case _:
                printer.print(step, self.last)

    def _position_in_block(self, access: Access, tile: Tile) -> tuple[str, str, str]:
        name = _name_once(self.positions, access, "position")
        row, col = (str(s[0]) for s in access.strides[-2:])
        start = step_of("n0", col) if col != "0" else ""
        offset = f"{name} + {start}".replace("+ -", "- ") if start else name
        pattern = f"[[{col}, cols]]" if tile.is_wide else "[[1, 1]]"
        return pattern, offset, row if tile.kind in (Kind.FULL, Kind.ROW) else "0"

    def _needed(self, step: AffineSelect) -> str:
        """When a choice by position changes a block: not where its furthest corner passes."""
        row, col = (set(s) for s in step.access.strides[-2:])
        if (row, col) not in (({1}, {-1}), ({-1}, {1})):
            return ""
        name = _name_once(self.positions, step.access, "position")
        is_ahead = row == {1}
        at = f"{name} - n0" if is_ahead else f"{name} + n0"
        falls, rises = (
            (" - cols + 1", " + rows - 1") if is_ahead else (" - rows + 1", " + cols - 1")
        )
        match step.op:
            case "greater_equal":
                return f"{at}{falls} < 0"
            case "greater":
                return f"{at}{falls} <= 0"
            case "less_equal":
                return f"{at}{rises} > 0"
            case "less":
                return f"{at}{rises} >= 0"
            case _:
                return ""

    def _define_exponentials(self) -> None:
        source = self.helpers
        source.add()
        source.add()
        given = f"out_part, v_kept, scores, neg_row_max{', beside' * self.has_beside}"
        with source.block(f"def {self.exponentials}({given}):"):
            source.add(
                '"""Softmax before its division: exponentials, and their sums in float32."""'
            )
            source.add("rows, num_keys = scores.shape")
            self._tile(source, "weights", "(rows, num_keys)", self.value_dtype)
            self._tile(source, "row_sum", "(rows, 1)", "nl.float32")
            source.add(
                "nisa.activation_reduce(dst=weights, op=nl.exp, data=scores, reduce_op=nl.add,"
                " reduce_res=row_sum, bias=neg_row_max)"
            )
            self._share(source)
            if self.has_beside:
                source.add("nisa.tensor_tensor(dst=row_sum, data1=row_sum, data2=share, op=nl.add)")
            source.add("return out_part, v_kept, weights, row_sum")

    def _define_weigh(self) -> None:
        source = self.helpers
        source.add()
        source.add()
        with source.block(f"def {self.weigh}(out_part, v_kept, weights, row_sum):"):
            source.add('"""The mean of the values under the weights, divided by their sum."""')
            source.add("rows, num_keys = weights.shape")
            self._turn_weights(source)
            self._weigh_values(source)
            self._tile(source, "inverse_sum", "(rows, 1)", "nl.float32")
            source.add("nisa.reciprocal(dst=inverse_sum, data=row_sum)")
            dtype = f"nl.{self.plan.out_dtype.value}"
            self._tile(source, "out_tile", "(rows, v_kept.shape[2])", dtype)
            source.add(
                "nisa.tensor_scalar(dst=out_tile, data=result, op0=nl.multiply,"
                " operand0=inverse_sum)"
            )
            source.add("nisa.dma_copy(dst=out_part, src=out_tile)")


def _name_once(names: dict[Access, str], access: Access, wanted: str) -> str:
    """The argument that brings what belongs to an access."""
    if access not in names:
        taken = sum(name == wanted or name.startswith(f"{wanted}_") for name in names.values())
        names[access] = wanted if not taken else f"{wanted}_{taken + 1}"
    return names[access]


def _plus(text: str) -> str:
    """`text` added to what stands before it."""
    return f" + {text}".replace("+ -", "- ") if text else ""
