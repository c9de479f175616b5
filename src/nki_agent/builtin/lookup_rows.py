"""Plans a pass over rows that looks some of its operands up by index.

Law: as in `lookups`; where it would need parts of rows, or several in a partition, it is refused,
and the gather is a stage of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nki_agent.builtin.align import Walk, group_size
from nki_agent.builtin.capture import Captured
from nki_agent.builtin.choices import Choices
from nki_agent.builtin.graph import UnsupportedError
from nki_agent.builtin.lookups import access_of_index, row_cols
from nki_agent.builtin.lower import Lowering
from nki_agent.builtin.pending import Place
from nki_agent.builtin.plan import RowsPlan, Stored
from nki_agent.builtin.row_bytes import BUFFERS, bytes_of
from nki_agent.builtin.row_space import Space
from nki_agent.builtin.rows import RowsPlanner
from nki_agent.builtin.stages import Group
from nki_agent.builtin.tile_steps import (
    Access,
    AffineSelect,
    Combine,
    Cut,
    Iota,
    Kind,
    Load,
    Lookup,
    Step,
    Tile,
)
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine


class LookupPlanner(RowsPlanner):
    """Plans one group of nodes with lookups."""

    def __init__(
        self,
        captured: Captured,
        group: Group,
        *,
        buffers: Mapping[int, Stored],
        outputs: Sequence[int],
        chip: ChipSpec,
    ) -> None:
        """As of any pass over rows; what is looked up stands for its table."""
        graph = captured.graph
        self.lookups = frozenset(group.lookups)
        self.looked_up: dict[Access, Tile] = {}
        tables = {n: buffers[graph.base(graph[n].inputs[0]).id] for n in group.lookups}
        stored = {**buffers, **tables}
        super().__init__(captured, group, buffers=stored, outputs=outputs, chip=chip)

    def plan(self, choices: Choices) -> RowsPlan:
        """Plan the stage.

        Raises:
            UnsupportedError: rows cannot be looked up whole.
        """
        return super().plan(replace(choices, packing=False))

    def _own_fences(self) -> frozenset[int]:
        """The first axis of the columns of what is looked up."""
        found = set()
        for source, axes in self.operands.items():
            node = self.graph.base(source)
            if node.id in self.lookups:
                walk, cols = self.walks(source, axes)[0], row_cols(self.captured, node)[0]
                found.add(
                    min((a for a, step in walk.strides.items() if 0 < step < cols), default=0)
                )
        return frozenset(found)

    def _with_period(self, space: Space) -> Space:
        return space

    def _plan_blocks(self, space: Space, room: int) -> RowsPlan:
        plan = self.lower_to(space, None)
        if bytes_of(plan, buffers=BUFFERS) > room:
            raise self._refusal("its rows do not fit SBUF")
        return plan

    def _spread(
        self,
        space: Space,
        steps: list[Step],
        block: int | None,
        names: Mapping[str, int],
        each: int | None,
    ) -> tuple[list[Step], tuple[int, ...]]:
        """GpSimd, which works in order, looks up the next rows before it works on these."""
        made, cuts = super()._spread(space, steps, block, names, each)
        if not any(isinstance(s, Combine) and s.engine is Engine.GPSIMD for s in made):
            return made, cuts
        loads = next(i for i, step in enumerate(made) if not isinstance(step, Load))
        by_position = any(isinstance(step, Iota | AffineSelect | Cut) for step in made)
        return made, cuts if by_position else tuple(sorted({loads, *cuts}))

    def _refusal(self, why: str) -> UnsupportedError:
        return UnsupportedError(self.graph[min(self.lookups)].origin, why)

    def _load(
        self,
        lowering: Lowering,
        space: Space,
        source: int,
        walks: Sequence[Walk],
        place: Place,
    ) -> None:
        node = self.graph.base(source)
        if node.id not in self.lookups:
            super()._load(lowering, space, source, walks, place)
            return
        cols = row_cols(self.captured, node)
        table, index = (self.buffers[self.graph.base(i).id] for i in node.inputs)
        is_whole = group_size(space.groups[-1], space.sizes) == cols and place.kind is Kind.FULL
        access = access_of_index(self._access(space, table.name, walks), cols, index.name)
        if space.is_flat or space.has_middle or lowering.is_packed or not is_whole:
            raise self._refusal("its rows are not looked up whole")
        if access is None or index.dtype is not DType.INT32 or table.strides or index.strides:
            raise self._refusal("its indices do not lie one for each row")
        if access not in self.looked_up or self.looked_up[access] not in _made(lowering):
            self.looked_up[access] = self._look_up(lowering, node.id, access, place)
        lowering.bind(source, self.looked_up[access])

    def _look_up(self, lowering: Lowering, node_id: int, access: Access, place: Place) -> Tile:
        """Load the indices of a tile, then the rows that they name."""
        node = self.graph[node_id]
        table_id = self.graph.base(node.inputs[0]).id
        table, cols = self.buffers[table_id], row_cols(self.captured, node)
        elems = tuple(g[table_id].num_elems for g in self.captured.graphs)
        index = lowering.tile("places", Place(Kind.ROW, place.level), DType.INT32)
        tile = lowering.tile(f"{table.name}_tile", place, table.dtype)
        lowering.emit(place.level, Load(dst=index, access=access))
        rows = tuple(n // c for n, c in zip(elems, cols, strict=True))
        nowhere = (0,) * len(cols)
        whole = Access(tensor=table.name, strides=(nowhere,) * len(access.strides), offset=nowhere)
        lookup = Lookup(index=index, rows=rows, cols=cols)
        lowering.emit(place.level, Load(dst=tile, access=whole, lookup=lookup))
        return tile


def _made(lowering: Lowering) -> set[Tile]:
    """What is loaded in this attempt."""
    return {step.dst for level in lowering.levels for step in level if isinstance(step, Load)}
