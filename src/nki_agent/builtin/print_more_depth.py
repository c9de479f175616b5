"""Prints the second of two products whose sum the scores of an attention are."""

from __future__ import annotations

from nki_agent.builtin.attention_sources import MoreDepth
from nki_agent.builtin.plan import AttentionPlan
from nki_agent.builtin.print_products import Loops, call_loader, swap_axes
from nki_agent.builtin.print_steps import layout_of
from nki_agent.builtin.regions import Regions, Window
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Access, Size

GIVEN = ("q_more", "k_more", "depth_more")
"""What a block of scores is given of it."""


class MoreScores:
    """Queries and keys beside the others, turned as those are."""

    def __init__(
        self, plan: AttentionPlan, more: MoreDepth, source: Source, scope: Scope, loops: Loops
    ) -> None:
        self.plan = plan
        self.more = more
        self.source = source
        self.scope = scope
        self.loops = loops

    def name_sizes(self) -> None:
        """How deep it is."""
        more, plan = self.more, self.plan
        self.source.add(
            f"depth_more = {self.scope.from_shapes(more.depth, more.q.tensor, from_last=True)}"
        )
        self.scope.names["depth_more"] = more.depth
        self.k_access = swap_axes(more.k)
        self.q = self._regions(more.q, ("num_queries", plan.queries))
        self.k = self._regions(self.k_access, ("num_keys", plan.keys))

    def _regions(self, access: Access, rows: tuple[str, Size]) -> Regions:
        axes = self.loops.axes(rows, ("depth_more", self.more.depth))
        regions = Regions(self.source, self.scope, axes)
        regions.prepare(layout_of(access))
        return regions

    def load_queries(self) -> None:
        """Those of the batch."""
        self._load("q_more", self.q, self.more.q, "num_queries", each=self.more.q_each)

    def load_keys(self) -> None:
        """Those of the batch."""
        self._load("k_more", self.k, self.k_access, "num_keys", each=self.more.k_each)

    def _load(self, name: str, regions: Regions, access: Access, count: str, *, each: int) -> None:
        shape = f"(PARTITIONS, (depth_more + PARTITIONS - 1) // PARTITIONS, {count})"
        dtype = f"nl.{self.plan.dtype.value}"
        self.source.add(f"{name} = nl.ndarray({shape}, dtype={dtype}, buffer=nl.sbuf)")
        windows = self.loops.windows(Window(count=count), Window(count="depth_more"))
        self.source.add(call_loader(name, regions.text(layout_of(access), windows), each))


def add_scores(source: Source) -> None:
    """Adds the second product to the first."""
    with source.block("for k in range(k_more.shape[1]):"):
        source.add("size = min(PARTITIONS, depth_more - k * PARTITIONS)")
        source.add(
            "nisa.nc_matmul(dst=product, stationary=q_more[:size, k, :],"
            " moving=k_more[:size, k, n0 : n0 + cols])"
        )
