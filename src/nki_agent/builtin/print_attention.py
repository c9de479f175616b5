"""Prints attention, one block of query rows at a time.

Three steps, each one block behind the step before it: scores, exponentials, values. So each engine
has another block's work while it would wait; the order of the calls is the order of each engine's
queue.
"""

from __future__ import annotations

from nki_agent.builtin.plan import Access, AttentionPlan, Size
from nki_agent.builtin.print_products import Loops, swap_axes
from nki_agent.builtin.print_rows import layout_of
from nki_agent.builtin.regions import Axis, Regions, Window
from nki_agent.builtin.text import Scope, Source

MASKED = -3.0e38
"""What a masked score is set to: its exponential is 0 beside any other."""


class AttentionPrinter:
    """Prints one AttentionPlan into a function body."""

    def __init__(
        self, plan: AttentionPlan, source: Source, scope: Scope, *, helpers: Source, prefix: str
    ) -> None:
        """`helpers` takes the two functions of a block, whose names begin with `prefix`."""
        self.plan = plan
        self.source = source
        self.scope = scope
        self.helpers = helpers
        self.score, self.weigh = f"{prefix}score", f"{prefix}weigh"
        self.exponentials = f"{prefix}exponentials"
        self.loops = Loops(plan.batch, source, scope)
        self.dtype = f"nl.{plan.dtype.value}"

    def print(self) -> None:
        """The whole of attention."""
        self._define_score()
        self._define_exponentials()
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
        if plan.scale is not None:
            self.scope.names = {"depth": plan.depth, **self.scope.names}
            add(f"scale = {self.scope.number(plan.scale)}")
        queries, keys = ("num_queries", plan.queries), ("num_keys", plan.keys)
        depth, value = ("depth", plan.depth), ("value_depth", plan.value_depth)
        self.q = self._regions((queries, depth), plan.q)
        self.k_access = swap_axes(plan.k)
        self.k = self._regions((keys, depth), self.k_access)
        self.v = self._regions((keys, value), plan.v)
        self.out = self._regions((queries, value), plan.out)
        if plan.mask is not None:
            self.mask = self._regions((queries, keys), plan.mask)
        self.source.note(
            "Each step runs one block behind the one before it, so that no engine waits."
        )
        add("scored, weighted = [], []")
        self._batch(0)
        self._finish_waiting()
        with self.source.block("for block in weighted:"):
            add(f"{self.weigh}(*block)")

    def _regions(self, minor: tuple[tuple[str, Size], tuple[str, Size]], access: Access) -> Regions:
        axes: list[Axis] = self.loops.axes(*minor)
        regions = Regions(self.source, self.scope, axes)
        regions.prepare(layout_of(access))
        return regions

    # -- the loops --------------------------------------------------------------------------------
    def _batch(self, level: int) -> None:
        if level < len(self.plan.batch):
            name = self.loops.names[level]
            with self.source.block(f"for {name} in range(num_{name}):"):
                self._batch(level + 1)
            return
        self._keys_and_values()
        add, plan = self.source.add, self.plan
        with self.source.block("for r0 in range(0, num_queries, PARTITIONS):"):
            add("rows = min(PARTITIONS, num_queries - r0)")
            rows = Window(start="r0", count="rows")
            given = ["q_turned[:, :, r0 : r0 + rows]", "k_turned", "depth"]
            if plan.mask is not None:
                windows = self.loops.windows(rows, Window(count="num_keys"))
                spread = "" if any(plan.mask.strides[-2]) else "rows"
                given.append(self.mask.text(layout_of(plan.mask), windows, spread=spread))
            given += ["scale"] if plan.scale is not None else []
            given += ["r0"] if plan.is_causal else []
            windows = self.loops.windows(rows, Window(count="value_depth"))
            out = self.out.text(layout_of(plan.out), windows)
            add(f"scores = {self.score}({', '.join(given)})")
            self._finish_waiting()
            self._tile(self.source, "neg_row_max", "(rows, 1)", "nl.float32")
            add(
                "nisa.tensor_reduce(dst=neg_row_max, op=nl.maximum, data=scores, axis=1,"
                " negate=True)"
            )
            add(f"scored = [({out}, v_kept, scores, neg_row_max)]")

    def _finish_waiting(self) -> None:
        """Weigh what has exponentials, and take those of what has scores."""
        add = self.source.add
        with self.source.block("for block in weighted:"):
            add(f"{self.weigh}(*block)")
        add("weighted = []")
        with self.source.block("for block in scored:"):
            add(f"weighted.append({self.exponentials}(*block))")

    def _keys_and_values(self) -> None:
        whole = Window(count="num_keys")
        self.source.note(
            "Queries and keys with their depth on the partitions, values with the keys there."
        )
        self._tile(self.source, "q_turned", "(PARTITIONS, depth_tiles, num_queries)", self.dtype)
        every = Window(count="num_queries")
        text = self.q.text(layout_of(self.plan.q), self.loops.windows(every, Window(count="depth")))
        self.source.add(f"load_transposed(q_turned, {text})")
        self._tile(self.source, "k_turned", "(PARTITIONS, depth_tiles, num_keys)", self.dtype)
        text = self.k.text(
            layout_of(self.k_access), self.loops.windows(whole, Window(count="depth"))
        )
        self.source.add(f"load_transposed(k_turned, {text})")
        self._tile(self.source, "v_kept", "(PARTITIONS, key_tiles, value_depth)", self.dtype)
        text = self.v.text(
            layout_of(self.plan.v), self.loops.windows(whole, Window(count="value_depth"))
        )
        self.source.add(f"load_blocks(v_kept, {text})")

    # -- one block of queries ---------------------------------------------------------------------
    @staticmethod
    def _tile(source: Source, name: str, shape: str, dtype: str, *, memory: str = "sbuf") -> None:
        source.add(f"{name} = nl.ndarray({shape}, dtype={dtype}, buffer=nl.{memory})")

    def _define_score(self) -> None:
        source, plan = self.helpers, self.plan
        given = ["q_turned", "k_turned", "depth"]
        given += ["mask_part"] if plan.mask is not None else []
        given += ["scale"] if plan.scale is not None else []
        given += ["r0"] if plan.is_causal else []
        source.add()
        source.add()
        with source.block(f"def {self.score}({', '.join(given)}):"):
            source.add('"""Scaled scores of a block of queries against all keys, in float32."""')
            source.add("rows = q_turned.shape[2]")
            if plan.is_causal:
                source.note("No query of the block sees a later key.")
                source.add("num_keys = min(k_turned.shape[2], r0 + rows)")
            else:
                source.add("num_keys = k_turned.shape[2]")
            self._tile(source, "scores", "(rows, num_keys)", "nl.float32")
            with source.block("for n0 in range(0, num_keys, BANK):"):
                self._score_block(source)
            if plan.is_causal:
                source.add(
                    "nisa.affine_select(dst=scores, pattern=[[-1, num_keys]], channel_multiplier=1,"
                    f" on_true_tile=scores, on_false_value={MASKED}, cmp_op=nl.greater_equal,"
                    " offset=r0)"
                )
            source.add("return scores")

    def _score_block(self, source: Source) -> None:
        source.add("cols = min(BANK, num_keys - n0)")
        self._tile(source, "product", "(rows, cols)", "nl.float32", memory="psum")
        with source.block("for k in range(k_turned.shape[1]):"):
            source.add("size = min(PARTITIONS, depth - k * PARTITIONS)")
            source.add(
                "nisa.nc_matmul(dst=product, stationary=q_turned[:size, k, :],"
                " moving=k_turned[:size, k, n0 : n0 + cols])"
            )
        target, plan = "scores[:, n0 : n0 + cols]", self.plan
        if plan.mask is None:
            scale = "" if plan.scale is None else ", scale=scale"
            source.add(f"nisa.activation(dst={target}, op=nl.copy, data=product{scale})")
            return
        self._tile(source, "mask_tile", "(rows, cols)", "mask_part.dtype")
        source.add("nisa.dma_copy(dst=mask_tile, src=mask_part[:, n0 : n0 + cols])")
        if plan.scale is None:
            source.add(
                f"nisa.tensor_tensor(dst={target}, data1=product, data2=mask_tile, op=nl.add)"
            )
            return
        source.add(
            f"nisa.scalar_tensor_tensor(dst={target}, data=product, op0=nl.multiply,"
            " operand0=scale, op1=nl.add, operand1=mask_tile)"
        )

    def _define_exponentials(self) -> None:
        source = self.helpers
        source.add()
        source.add()
        with source.block(f"def {self.exponentials}(out_part, v_kept, scores, neg_row_max):"):
            source.add(
                '"""Softmax before its division: exponentials, and their sums in float32."""'
            )
            source.add("rows, num_keys = scores.shape")
            self._tile(source, "weights", "(rows, num_keys)", self.dtype)
            self._tile(source, "row_sum", "(rows, 1)", "nl.float32")
            source.add(
                "nisa.activation_reduce(dst=weights, op=nl.exp, data=scores, reduce_op=nl.add,"
                " reduce_res=row_sum, bias=neg_row_max)"
            )
            source.add("return out_part, v_kept, weights, row_sum")

    def _define_weigh(self) -> None:
        source = self.helpers
        source.add()
        source.add()
        with source.block(f"def {self.weigh}(out_part, v_kept, weights, row_sum):"):
            source.add('"""The mean of the values under the weights, divided by their sum."""')
            source.add("rows, num_keys = weights.shape")
            source.add("key_tiles = (num_keys + PARTITIONS - 1) // PARTITIONS")
            self._tile(source, "weights_turned", "(PARTITIONS, key_tiles, rows)", self.dtype)
            source.add("turn(weights_turned, weights)")
            self._tile(source, "result", "(rows, v_kept.shape[2])", "nl.float32", memory="psum")
            with source.block("for k in range(key_tiles):"):
                source.add("size = min(PARTITIONS, num_keys - k * PARTITIONS)")
                source.add(
                    "nisa.nc_matmul(dst=result, stationary=weights_turned[:size, k, :],"
                    " moving=v_kept[:size, k, :])"
                )
            self._tile(source, "inverse_sum", "(rows, 1)", "nl.float32")
            source.add("nisa.reciprocal(dst=inverse_sum, data=row_sum)")
            dtype = f"nl.{self.plan.out_dtype.value}"
            self._tile(source, "out_tile", "(rows, v_kept.shape[2])", dtype)
            source.add(
                "nisa.tensor_scalar(dst=out_tile, data=result, op0=nl.multiply,"
                " operand0=inverse_sum)"
            )
            source.add("nisa.dma_copy(dst=out_part, src=out_tile)")
