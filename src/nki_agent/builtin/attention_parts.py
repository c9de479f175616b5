"""The parts of a printed attention whose scores stay in PSUM, and what both kinds share.

Law: a score that no query may see is put far below all others by a product with the identity, so
that nothing leaves PSUM before the exponentials are taken.
"""

from __future__ import annotations

from nki_agent.builtin.plan import AttentionPlan
from nki_agent.builtin.text import Source
from nki_agent.builtin.tile_steps import AffineSelect

FAR_BELOW = -1e30
"""What is added to scores of hidden keys: in reach of bfloat16, and nothing beside it counts."""


class AttentionParts:
    """Functions of one block of queries, written into `helpers`."""

    plan: AttentionPlan
    source: Source
    helpers: Source
    value_dtype: str
    last: int
    has_beside: bool
    score: str
    weigh: str
    exponentials: str
    maxima: str
    turn: str
    finish: str
    bias: str

    @property
    def _scale(self) -> str:
        """The argument that brings the factor of scores in PSUM, if there is one."""
        scale = self.plan.scale
        return ", scale" if scale is not None and any(n != 1.0 for n in scale) else ""

    @staticmethod
    def _tile(source: Source, name: str, shape: str, dtype: str, *, memory: str = "sbuf") -> None:
        source.add(f"{name} = nl.ndarray({shape}, dtype={dtype}, buffer=nl.{memory})")

    def _selects(self) -> list[AffineSelect]:
        steps = self.plan.levels[self.last] if self.plan.scale is not None else ()
        return [step for step in steps if isinstance(step, AffineSelect)]

    def hidden_keys(self, number: int) -> str:
        """The name of the function that makes masks of one kind."""
        return f"{self.score.removesuffix('score')}hidden_keys{f'_{number + 1}' * (number > 0)}"

    def _define_hidden_keys(self) -> None:
        for number, step in enumerate(self._selects()):
            source = self.helpers
            source.add()
            source.add()
            row, col = (str(s[0]) for s in step.access.strides[-2:])
            with source.block(f"def {self.hidden_keys(number)}(masks, offset, rows, cols):"):
                source.add('"""Far below all scores where a key is hidden, else 0; made once."""')
                kind = f"{number + 1}: " if len(self._selects()) > 1 else ""
                source.add(f'key = f"{kind}{{offset}} {{rows}} {{cols}}"')
                with source.block("if key not in masks:"):
                    self._tile(source, "mask", "(rows, cols)", "nl.bfloat16")
                    source.add("nisa.memset(dst=mask, value=0.0, engine=nisa.engine.gpsimd)")
                    source.add(
                        f"nisa.affine_select(dst=mask, pattern=[[{col}, cols]],"
                        f" channel_multiplier={row}, on_true_tile=mask,"
                        f" on_false_value={FAR_BELOW}, cmp_op=nl.{step.op}, offset=offset)"
                    )
                    source.add("masks[key] = mask")
                source.add("return masks[key]")

    def _make_identity(self) -> None:
        """What copies a mask into a sum of products."""
        add = self.source.add
        self.source.note(
            "Masks by what they depend on, and the identity that brings them into a sum."
        )
        self._tile(self.source, "identity", "(PARTITIONS, PARTITIONS)", "nl.bfloat16")
        add("nisa.memset(dst=identity, value=1.0, engine=nisa.engine.gpsimd)")
        add(
            "nisa.affine_select(dst=identity, pattern=[[1, PARTITIONS]], channel_multiplier=-1,"
            " on_true_tile=identity, on_false_value=0.0, cmp_op=nl.equal)"
        )
        add('masks = {"identity": identity}')

    @property
    def _more(self) -> str:
        """What later steps are given of the score beside the others."""
        return ", share" * self.has_beside

    def _share(self, source: Source) -> None:
        """What the score beside the others has in the sum of a row."""
        if self.has_beside:
            self._tile(source, "share", "(rows, 1)", "nl.float32")
            source.add(
                "nisa.activation(dst=share, op=nl.exp, data=beside[:rows], bias=neg_row_max)"
            )

    def _turn_values(self, part: str) -> None:
        """Keys from the values, which they are."""
        self.source.note("The keys are the values: they are turned, not loaded again.")
        with self.source.block("for k in range(key_tiles):"):
            self.source.add("size = min(PARTITIONS, num_keys - k * PARTITIONS)")
            self.source.add("keys = k_turned[:, :, k * PARTITIONS : k * PARTITIONS + size]")
            tile = f"{part.partition('[')[0]}[:size, k, {':value_depth' if '[' in part else ':'}]"
            self.source.add(f"turn(keys, {tile})")

    def _define_maxima(self) -> None:
        source = self.helpers
        source.add()
        source.add()
        with source.block(f"def {self.maxima}(scores):"):
            source.add('"""The largest of each row in each bank."""')
            self._tile(source, "maxima", "(scores[0].shape[0], len(scores))", "nl.float32")
            with source.block("for n in range(len(scores)):"):
                source.add(
                    "nisa.tensor_reduce(dst=maxima[:, n : n + 1], op=nl.maximum, data=scores[n],"
                    " axis=1)"
                )
            source.add("return maxima")

    def _define_bias(self) -> None:
        source = self.helpers
        source.add()
        source.add()
        factor = "-scale" if self._scale else "-1.0"
        with source.block(f"def {self.bias}(maxima{self._scale}):"):
            source.add('"""The largest of each row, scaled and negated."""')
            source.add("rows, banks = maxima.shape")
            self._tile(source, "neg_row_max", "(rows, 1)", "nl.float32")
            with source.block("if banks == 1:"):
                source.add(
                    "nisa.tensor_scalar(dst=neg_row_max, data=maxima, op0=nl.multiply,"
                    f" operand0={factor})"
                )
            with source.block("else:"):
                source.add(
                    "nisa.tensor_scalar(dst=neg_row_max, data=maxima[:, :1], op0=nl.maximum,"
                    f" operand0=maxima[:, 1:], op1=nl.multiply, operand1={factor})"
                )
            source.add("return neg_row_max")

    def _define_exponentials_of_blocks(self) -> None:
        source = self.helpers
        source.add()
        source.add()
        given = f"out_part, v_kept, scores, neg_row_max{', beside' * self.has_beside}{self._scale}"
        with source.block(f"def {self.exponentials}({given}):"):
            source.add('"""Softmax before its division, in the dtype of the values."""')
            source.add("rows = scores[0].shape[0]")
            source.add("num_keys = (len(scores) - 1) * BANK + scores[-1].shape[1]")
            self._tile(source, "weights", "(rows, num_keys)", self.value_dtype)
            with source.block("for n in range(len(scores)):"):
                scale = ", scale=scale" if self._scale else ""
                source.add(
                    "nisa.activation(dst=weights[:, n * BANK : n * BANK + scores[n].shape[1]],"
                    f" op=nl.exp, data=scores[n], bias=neg_row_max{scale})"
                )
            self._share(source)
            source.add(f"return out_part, v_kept, weights{self._more}")

    def _define_weigh_with_sums(self) -> None:
        source = self.helpers
        source.add()
        source.add()
        with source.block(f"def {self.turn}(out_part, v_kept, weights{self._more}):"):
            source.add('"""Weights with the keys on the partitions."""')
            source.add("rows, num_keys = weights.shape")
            self._turn_weights(source)
            source.add(f"return out_part, v_kept, weights_turned, num_keys{self._more}")
        source.add()
        source.add()
        given = f"out_part, v_kept, weights_turned, num_keys{self._more}"
        with source.block(f"def {self.weigh}({given}):"):
            source.add('"""The sum of the values under the weights, and of the weights."""')
            source.add("key_tiles, rows = weights_turned.shape[1:]")
            self._weigh_values(source)
            source.add(f"return out_part, result{self._more}")
        source.add()
        source.add()
        with source.block(f"def {self.finish}(out_part, result{self._more}):"):
            source.add('"""Divides by the sum of the weights, which is the last column."""')
            source.add("rows, value_depth = result.shape[0], result.shape[1] - 1")
            total = "result[:, value_depth:]"
            if self.has_beside:
                self._tile(source, "row_sum", "(rows, 1)", "nl.float32")
                source.add(
                    f"nisa.tensor_tensor(dst=row_sum, data1={total}, data2=share, op=nl.add)"
                )
                total = "row_sum"
            self._tile(source, "inverse_sum", "(rows, 1)", "nl.float32")
            source.add(f"nisa.reciprocal(dst=inverse_sum, data={total})")
            dtype = f"nl.{self.plan.out_dtype.value}"
            self._tile(source, "out_tile", "(rows, value_depth)", dtype)
            source.add(
                "nisa.activation(dst=out_tile, op=nl.copy, data=result[:, :value_depth],"
                " scale=inverse_sum)"
            )
            source.add("nisa.dma_copy(dst=out_part, src=out_tile)")

    def _turn_weights(self, source: Source) -> None:
        source.add("key_tiles = (num_keys + PARTITIONS - 1) // PARTITIONS")
        self._tile(source, "weights_turned", "(PARTITIONS, key_tiles, rows)", self.value_dtype)
        source.add(f"turn{'_steps' if self.plan.has_runs else ''}(weights_turned, weights)")

    def _weigh_values(self, source: Source) -> None:
        """The product of weights and values, in PSUM."""
        self._tile(source, "result", "(rows, v_kept.shape[2])", "nl.float32", memory="psum")
        with source.block("for k in range(key_tiles):"):
            source.add("size = min(PARTITIONS, num_keys - k * PARTITIONS)")
            source.add(
                "nisa.nc_matmul(dst=result, stationary=weights_turned[:size, k, :],"
                " moving=v_kept[:size, k, :])"
            )
