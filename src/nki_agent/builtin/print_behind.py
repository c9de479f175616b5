"""Prints the loads of keys and values that lie in two tensors, one behind the other."""

from __future__ import annotations

from collections.abc import Callable

from nki_agent.builtin.attention_sources import Behind
from nki_agent.builtin.plan import AttentionPlan
from nki_agent.builtin.print_products import Loops, swap_axes
from nki_agent.builtin.print_steps import layout_of
from nki_agent.builtin.regions import Regions, Window
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Access, Size


class BehindKeys:
    """What follows the keys and values of a cache, in the same tiles."""

    def __init__(
        self, plan: AttentionPlan, behind: Behind, source: Source, scope: Scope, loops: Loops
    ) -> None:
        self.plan = plan
        self.behind = behind
        self.source = source
        self.scope = scope
        self.loops = loops

    def name_sizes(self) -> tuple[str, Size]:
        """How many keys the cache has, and how many follow; the first are returned."""
        first, key = self.behind.first, self.behind.k.tensor
        more = tuple(a - b for a, b in zip(self.plan.keys, first, strict=True))
        for name, size, tensor in (
            ("num_first", first, self.plan.k.tensor),
            ("num_behind", more, key),
        ):
            self.source.add(f"{name} = {self.scope.from_shapes(size, tensor)}")
            if any(n != 1 for n in size):
                self.scope.names[name] = size
        depth, value = ("depth", self.plan.depth), ("value_depth", self.plan.value_depth)
        keys = ("num_behind", more)
        self.k_access = swap_axes(self.behind.k)
        self.k = self._regions(self.k_access, keys, depth)
        self.v = self._regions(self.behind.v, keys, value)
        return "num_first", first

    def _regions(self, access: Access, *minor: tuple[str, Size]) -> Regions:
        regions = Regions(self.source, self.scope, self.loops.axes(*minor))
        regions.prepare(layout_of(access))
        return regions

    def load_keys(self, load: Callable[[str, str], str]) -> None:
        """The other keys, by the call that loads keys."""
        windows = self.loops.windows(Window(count="num_behind"), Window(count="depth"))
        text = self.k.text(layout_of(self.k_access), windows)
        self.source.add(load("k_turned[:, :, num_first:]", text))

    def load_values(self, part: str) -> None:
        """The other values; they may begin inside of a tile."""
        windows = self.loops.windows(Window(count="num_behind"), Window(count="value_depth"))
        text = self.v.text(layout_of(self.behind.v), windows)
        self.source.add(f"load_behind({part}, {text}, num_first)")
