"""Prints attention whose scores are made twice: once for the maxima, once with the keys first.

Law: exponentials are written as they are needed, with the keys on the partitions, so nothing is
turned. What is taken off the scores of a query lies beside it in two parts of the queries' dtype,
where ones of each key meet them: softmax is the same whatever that number is, as long as all scores
of the query lose it and it is near the largest.
"""

from __future__ import annotations

from nki_agent.builtin.attention_parts import FAR_BELOW
from nki_agent.builtin.print_attention import AttentionPrinter
from nki_agent.builtin.print_steps import layout_of, signed
from nki_agent.builtin.regions import Window
from nki_agent.builtin.turned_attention_text import (
    ADD_VALUES,
    ADVANCE,
    ADVANCE_CAPPED,
    HIDE,
    HIDE_WEIGHTS,
    LIST_GROUPS,
    NEXT_BANK,
    define_finish,
    define_lists,
    define_maxima,
    define_start,
    define_weights,
)

TILES_BEHIND = 2
"""Tiles of keys under way between their exponentials and their values."""


PRODUCT_BANKS = 5
"""PSUM banks that scores go round; results take two, and what is turned one."""


class TurnedAttentionPrinter(AttentionPrinter):
    """Prints one AttentionPlan whose scores are turned."""

    @property
    def _is_masked(self) -> bool:
        return self.plan.first_key is not None or self.plan.last_key is not None

    def _define(self) -> None:
        """The functions of a group of queries."""
        plan, scale = self.plan, bool(self._scale)
        bounds = {"has_first": plan.first_key is not None, "has_last": plan.last_key is not None}
        capped, beside = plan.cap is not None, self.has_beside
        out_dtype = f"nl.{plan.out_dtype.value}"
        hide = HIDE_WEIGHTS if capped else HIDE.replace("FAR_BELOW", str(FAR_BELOW))
        advance = ADVANCE_CAPPED if capped else ADVANCE
        texts = [
            *[hide] * self._is_masked,
            LIST_GROUPS,
            NEXT_BANK,
            *define_lists(**bounds, capped=capped),
            *[define_maxima(self.dtype, **bounds, beside=beside)] * (not capped),
            define_weights(self.value_dtype, **bounds, scaled=scale, capped=capped),
            ADD_VALUES,
            define_finish(out_dtype, beside=beside, scaled=scale, capped=capped),
            define_start(capped=capped),
            advance.replace("TILES_BEHIND", str(TILES_BEHIND)),
        ]
        for text in texts:
            for function in text.strip().split("\n\n\n"):
                self.helpers.add()
                self.helpers.add()
                self.helpers.lines.extend(function.splitlines())

    def _name_factor(self) -> None:
        cap = self.plan.cap
        if cap is None:
            super()._name_factor()
        elif self._scale:
            self.source.add(f"scale = {' * '.join(map(self.scope.number, cap.factors))}")

    def _prepare(self) -> None:
        """What all groups share."""
        add, plan = self.source.add, self.plan
        if plan.cap is None:
            self.source.note("What is added to all scores of a query is where engines may write.")
            add("offset_row = (depth + 31) // 32 * 32")
            add("depth_tiles = offset_row // PARTITIONS + 1")
        else:
            add("depth_tiles = (depth + PARTITIONS - 1) // PARTITIONS")
            add(f"cap = {self.scope.number(plan.cap.most)}")
        for name, key in (("first_key", plan.first_key), ("last_key", plan.last_key)):
            if key is not None:
                self.source.note(
                    f"The {name.split('_')[0]} key that a query sees, minus the query."
                )
                add(f"{name} = {signed(self.scope, key)}")
        if self._is_masked and plan.cap is None:
            self._make_identity()
        add("banks = []")
        with self.source.block(f"for _ in range({PRODUCT_BANKS}):"):
            add("banks.append(nl.ndarray((PARTITIONS, BANK), dtype=nl.float32, buffer=nl.psum))")
        if plan.cap is None:
            self.source.note(
                "While one group is weighed, the maxima of the next but one are taken."
            )
        add(f"{self._lists} = [], [], [], []")

    @property
    def _lists(self) -> str:
        """What is under way."""
        return f"{'groups' if self.plan.cap is None else 'capped'}, waiting, weighed, inverted"

    def _blocks(self) -> None:
        add, plan = self.source.add, self.plan
        with self.source.block("for r0, count in list_groups(num_queries, value_depth + 1):"):
            out = self.out.text(
                layout_of(plan.out),
                self.loops.windows(Window(start="r0", count="count"), Window(count="value_depth")),
            )
            entries = {
                "start": "r0",
                "rows": "min(PARTITIONS, count)",
                "q": "q_turned[:, :, r0 : r0 + count]",
                "k": "k_turned",
                "v": "v_kept",
                "depth": "depth",
                "offset_row": "offset_row",
                "out": out,
                "banks": "banks",
            }
            if plan.first_key is not None:
                entries["first_key"] = "first_key"
            if plan.last_key is not None:
                entries["last_key"] = "last_key"
            if plan.cap is not None:
                entries["cap"] = "cap"
                del entries["offset_row"]
            elif self._is_masked:
                entries["masks"] = "masks"
            if self._scale:
                entries["scale"] = "scale"
            if self.has_beside:
                entries |= {"beside": "beside", "neg_beside": "neg_beside"}
            with self.source.block("group = {"):
                for name, value in entries.items():
                    add(f'"{name}": {value},')
            add("}")
            add(f"advance({self._lists}, group)")

    def _finish_all(self) -> None:
        with self.source.block(f"while {self._lists.replace(', ', ' or ')}:"):
            self.source.add(f"advance({self._lists}, {{}})")

    def _fill_beside(self, name: str) -> None:
        if self.plan.cap is not None:
            return
        value = 1.0 if name == "k_turned" else 0.0
        self.source.add(
            f"nisa.memset(dst={name}[:, depth_tiles - 1, :], value={value},"
            " engine=nisa.engine.gpsimd)"
        )

    def _unit_beside(self) -> str:
        return "-1.0 / scale" if self._scale else "-1.0"
