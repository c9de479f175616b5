"""Prints attention of many small batches, several in each tile.

Law: loading and turning, scores, and values are each issued one tile behind the one before, so that
no engine waits; the text fits any number of batches.
"""

from __future__ import annotations

import contextlib

from nki_agent.builtin.plan import Plan
from nki_agent.builtin.print_products import swap_axes
from nki_agent.builtin.print_rows import OUTER_NAMES
from nki_agent.builtin.print_steps import StepPrinter
from nki_agent.builtin.regions import access_pattern, times
from nki_agent.builtin.small_attention_plan import SmallAttentionPlan
from nki_agent.builtin.text import PartScope, Scope, Source
from nki_agent.builtin.tile_steps import Access, Number, Size

TURN_EACH = '''def turn_each(dst, tile):
    """Turns each matrix of tile [M, batches, N] to dst [N, batches, M]."""
    rows, each, cols = tile.shape
    turned = nl.ndarray((cols, each, rows), dtype=tile.dtype, buffer=nl.psum)
    for e in range(each):
        nisa.nc_transpose(dst=turned[:, e, :], data=tile[:, e, :])
    nisa.activation(dst=dst, op=nl.copy, data=turned)
'''
LOAD_EACH = '''def load_each(part):
    """Loads part [M, batches, N] in tiles of up to 128 rows of M."""
    num_rows, each, cols = part.shape
    tiles = []
    for r0 in range(0, num_rows, PARTITIONS):
        rows = min(PARTITIONS, num_rows - r0)
        tile = nl.ndarray((rows, each, cols), dtype=part.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=part[r0 : r0 + rows, :, :])
        tiles.append(tile)
    return tiles
'''
TURN_TILES = '''def turn_tiles(tiles):
    """Turns matrices that lie in tiles [128 of M, batches, N]: [N, batches, M]."""
    num_rows = 0
    for tile in tiles:
        num_rows = num_rows + tile.shape[0]
    _, each, cols = tiles[0].shape
    turned = nl.ndarray((cols, each, num_rows), dtype=tiles[0].dtype, buffer=nl.sbuf)
    r0 = 0
    for tile in tiles:
        turn_each(turned[:, :, r0 : r0 + tile.shape[0]], tile)
        r0 = r0 + tile.shape[0]
    return turned
'''
CUT_EACH = '''def cut_each(tiles, start, width):
    """Columns of each tile [M, batches, N]."""
    parts = []
    for tile in tiles:
        parts.append(tile[:, :, start : start + width])
    return parts
'''


def small_attention_helpers(plan: Plan) -> list[str]:
    """The helper functions that such stages of a plan call."""
    stages = [stage for stage in plan.stages if isinstance(stage, SmallAttentionPlan)]
    cuts = [CUT_EACH] if any(stage.width is not None for stage in stages) else []
    return [TURN_EACH, LOAD_EACH, TURN_TILES, *cuts] if stages else []


class SmallAttentionPrinter:
    """Prints one SmallAttentionPlan into a function body."""

    def __init__(
        self,
        plan: SmallAttentionPlan,
        source: Source,
        scope: Scope,
        *,
        helpers: Source,
        prefix: str,
    ) -> None:
        """`helpers` takes the functions of a tile, whose names begin with `prefix`."""
        self.plan = plan
        self.source = source
        self.scope = scope
        self.helpers = helpers
        self.turn, self.score, self.weigh = (f"{prefix}{n}" for n in ("turn", "score", "weigh"))
        self.outer = OUTER_NAMES[: len(plan.outer)]
        self.factors: dict[str, Number] = {}

    def print(self) -> None:
        """All batches."""
        self._define_turn()
        self._define_score()
        self._define_weigh()
        add, plan = self.source.add, self.plan
        sizes = {f"num_{name}": size for name, size in zip(self.outer, plan.outer, strict=True)}
        sizes |= {"num_batches": plan.batches, "num_queries": plan.queries}
        sizes |= {"num_keys": plan.keys, "depth": plan.depth, "value_depth": plan.value_depth}
        for name, size in sizes.items():
            add(f"{name} = {self.scope.size(size)}")
        self.source.note("As many batches at a time as one PSUM bank holds matrices of.")
        add("most = BANK // max(num_queries, num_keys, value_depth)")
        self.source.note("Each step runs one tile behind the one before it, so no engine waits.")
        add("turned, scored = [], []")
        batches = "for b0 in range(0, num_batches, most):"
        with contextlib.ExitStack() as loops:
            if plan.width is not None:
                self._shared_of_each()
                loops.enter_context(self.source.block(batches))
                self._rows(plan.width)
            for name in self.outer:
                loops.enter_context(self.source.block(f"for {name} in range(num_{name}):"))
            if plan.width is None:
                self._shared()
                loops.enter_context(self.source.block(batches))
                add("each = min(most, num_batches - b0)")
            self._tile()
        with self.source.block("for block in turned:"):
            add(self._next_score())
        with self.source.block("for block in scored:"):
            add(f"{self.weigh}(*block)")

    def _shared(self) -> None:
        """Operands of the scores that all batches have in common, in blocks of queries."""
        for load in self.plan.shared:
            text = self._region(load.access, ["num_queries", "1", "num_keys"], self.plan.keys)
            self.source.add(f"{load.dst.name}_tiles = load_each({text})")

    def _shared_of_each(self) -> None:
        """The same for all turns of the outer loop."""
        for load in self.plan.shared:
            self.source.add(f"all_{load.dst.name} = []")
        if self.plan.shared:
            name = self.outer[0]
            with self.source.block(f"for {name} in range(num_{name}):"):
                self._shared()
                for load in self.plan.shared:
                    self.source.add(f"all_{load.dst.name}.append({load.dst.name}_tiles)")

    def _rows(self, width: Size) -> None:
        """Whole rows of the batches of a tile, with queries, keys and values of all heads."""
        plan = self.plan
        zero = (0,) * len(width)
        rows = Access(tensor=plan.q.tensor, strides=(zero, *plan.q.strides[1:]), offset=zero)
        self.source.add("each = min(most, num_batches - b0)")
        self.source.note("Rows hold queries, keys and values of all heads: one transfer for all.")
        text = self._region(rows, ["num_queries", "each", self.scope.size(width)], width)
        self.source.add(f"tiles = load_each({text})")

    def _operands(self) -> list[str]:
        """Tiles of queries, keys and values."""
        plan = self.plan
        if plan.width is None:
            parts = (
                (plan.q, "num_queries", "depth", plan.depth),
                (swap_axes(plan.k), "num_keys", "depth", plan.depth),
                (plan.v, "num_keys", "value_depth", plan.value_depth),
            )
            regions = [self._region(a, [rows, "each", cols], n) for a, rows, cols, n in parts]
            return [f"load_each({region})" for region in regions]
        cuts = []
        for access in (plan.q, plan.k, plan.v):
            stride = self.scope.pace(access.strides[0], plan.outer[0], plan.depth)
            start = [self.scope.size(access.offset)] if any(access.offset) else []
            start.append(times(self.outer[0], stride))
            cuts.append(f"cut_each(tiles, {' + '.join(start)}, depth)")
        return cuts

    def _tile(self) -> None:
        add, plan = self.source.add, self.plan
        out = self._region(plan.out, ["num_queries", "each", "value_depth"], plan.value_depth)
        kept = [
            f"{load.dst.name}_tiles"
            if plan.width is None
            else f"all_{load.dst.name}[{self.outer[0]}]"
            for load in plan.shared
        ]
        made = f"{self.turn}({', '.join(self._operands())})"
        add(f"turned.append(({', '.join([made, out, *kept])}))")
        with self.source.block("if len(turned) > 1:"):
            add("block = turned.pop(0)")
            add(self._next_score())
        with self.source.block("if len(scored) > 1:"):
            add(f"{self.weigh}(*scored.pop(0))")

    def _next_score(self) -> str:
        numbers = "".join(f", {self.scope.number(n)}" for n in self.factors.values())
        return f"scored.append((*{self.score}(*block[0], *block[2:]{numbers}), block[1]))"

    def _region(self, access: Access, counts: list[str], cols: Size) -> str:
        """Rows, batches and columns of a tensor."""
        plan = self.plan
        sizes = [*plan.outer, plan.batches, plan.queries, cols]
        steps = []
        for axis, (stride, size) in enumerate(zip(access.strides, sizes, strict=True)):
            span: Size = ()
            if axis + 1 < len(sizes):
                pairs = zip(sizes[axis + 1], access.strides[axis + 1], strict=True)
                span = tuple(a * b for a, b in pairs)
            steps.append(self.scope.pace(stride, size, span) if any(stride) else "0")
        *outer, batch, row, col = steps
        terms = [self.scope.size(access.offset)] if any(access.offset) else []
        pairs_of = [*zip(self.outer, outer, strict=True), ("b0", batch)]
        terms += [times(at, stride) for at, stride in pairs_of if stride != "0"]
        pattern = [[row, counts[0]], [batch, counts[1]], [col, counts[2]]]
        return access_pattern(access.tensor, pattern, terms)

    @staticmethod
    def _allocate(
        source: Source, name: str, shape: str, dtype: str, *, memory: str = "sbuf"
    ) -> None:
        source.add(f"{name} = nl.ndarray({shape}, dtype=nl.{dtype}, buffer=nl.{memory})")

    # -- the functions of a tile ------------------------------------------------------------------
    def _open(self, name: str, given: str, says: str) -> Source:
        self.helpers.add()
        self.helpers.add()
        self.helpers.add(f"def {name}({given}):")
        self.helpers.add(f'    """{says}"""')
        return Source(depth=1)

    def _define_turn(self) -> None:
        body = self._open(
            self.turn,
            "q_tiles, k_tiles, v_tiles",
            "Queries and keys of a tile of batches get their depth on the partitions.",
        )
        body.add("return turn_tiles(q_tiles), turn_tiles(k_tiles), v_tiles")
        self.helpers.lines.extend(body.lines)

    def _define_score(self) -> None:
        plan, body = self.plan, Source(depth=1)
        scope = PartScope({}, {"depth": plan.depth})
        steps = StepPrinter(body, scope, row_level=1, cols="num_keys", is_packed=True)
        body.add("depth, each, num_queries = q_turned.shape")
        body.add("num_keys = k_turned.shape[2]")
        body.add("blocks = []")
        with body.block("for r0 in range(0, num_queries, PARTITIONS):"):
            body.add("rows = min(PARTITIONS, num_queries - r0)")
            for load in plan.shared:
                name = load.dst.name
                body.add(f"{name} = {name}_tiles[r0 // PARTITIONS][:, 0, :]")
                steps.take(load.dst)
            self._scores(body, steps)
            self._exponentials(body)
        body.add("return v_tiles, blocks")
        self.factors = scope.given
        shared = [f"{load.dst.name}_tiles" for load in plan.shared]
        given = ["q_turned", "k_turned", "v_tiles", *shared, *self.factors]
        self._open(
            self.score,
            ", ".join(given),
            "Softmax of each batch before its division, and the sums of its rows.",
        )
        self.helpers.lines.extend(body.lines)

    def _scores(self, body: Source, steps: StepPrinter) -> None:
        """f(q k^T) of a block of queries."""
        product = self.plan.product.name
        self._allocate(body, product, "(rows, each, num_keys)", "float32", memory="psum")
        with body.block("for e in range(each):"):
            body.add(
                f"nisa.nc_matmul(dst={product}[:, e, :],"
                " stationary=q_turned[:, e, r0 : r0 + rows], moving=k_turned[:, e, :])"
            )
        for step in self.plan.steps:
            steps.print(step, 1)

    def _exponentials(self, body: Source) -> None:
        """Their exponentials and row sums."""
        scores, shape = self.plan.scores.name, "(rows, each, num_keys)"
        body.note("In PSUM, since two operands from SBUF would share its port.")
        self._allocate(body, "row_max", "(rows, each, 1)", "float32", memory="psum")
        body.add(f"nisa.tensor_reduce(dst=row_max, op=nl.maximum, data={scores}, axis=2)")
        self._allocate(body, "shifted", shape, "float32")
        body.add(
            f"nisa.tensor_tensor(dst=shifted, data1={scores},"
            " data2=row_max.broadcast(2, num_keys), op=nl.subtract)"
        )
        self._allocate(body, "weights", shape, self.plan.value_dtype.value)
        body.add("nisa.activation(dst=weights, op=nl.exp, data=shifted)")
        self._allocate(body, "row_sum", "(rows, each, 1)", "float32")
        body.add("nisa.tensor_reduce(dst=row_sum, op=nl.add, data=weights, axis=2)")
        body.add("blocks.append((weights, row_sum))")

    def _define_weigh(self) -> None:
        body = self._open(
            self.weigh,
            "v_tiles, blocks, out_part",
            "The mean of the values under the weights, divided by their sum.",
        )
        body.add("r0, value_depth = 0, v_tiles[0].shape[2]")
        with body.block("for weights, row_sum in blocks:"):
            body.add("rows, each, num_keys = weights.shape")
            shape = "(rows, each, value_depth)"
            self._allocate(body, "result", shape, "float32", memory="psum")
            body.add("k0 = 0")
            with body.block("for v_tile in v_tiles:"):
                body.add("size = v_tile.shape[0]")
                turned = "(size, each, rows)"
                self._allocate(body, "weights_turned", turned, self.plan.value_dtype.value)
                body.add("turn_each(weights_turned, weights[:, :, k0 : k0 + size])")
                with body.block("for e in range(each):"):
                    body.add(
                        "nisa.nc_matmul(dst=result[:, e, :], stationary=weights_turned[:, e, :],"
                        " moving=v_tile[:, e, :])"
                    )
                body.add("k0 = k0 + size")
            self._allocate(body, "inverse_sum", "(rows, each, 1)", "float32")
            body.add("nisa.reciprocal(dst=inverse_sum, data=row_sum)")
            self._allocate(body, "out_tile", shape, self.plan.out_dtype.value)
            body.add(
                "nisa.tensor_tensor(dst=out_tile, data1=result,"
                " data2=inverse_sum.broadcast(2, value_depth), op=nl.multiply)"
            )
            body.add("nisa.dma_copy(dst=out_part[r0 : r0 + rows, :, :], src=out_tile)")
            body.add("r0 = r0 + rows")
        self.helpers.lines.extend(body.lines)
