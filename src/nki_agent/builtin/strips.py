"""Plans a pass over rows that do not fit SBUF: each row in strips of columns, several times.

Law: a pass goes over the strips of one tile of rows and adds each reduction up in a column; what
depends on a reduction waits for the next pass, which makes wide values anew from the inputs
instead of keeping them. Where whole rows of the inputs fit, they are loaded once. Levels of steps:
outer loops, the loop over rows, then by turns the steps of a strip and those after all strips of a
pass.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from nki_agent.builtin.balance import Estimate
from nki_agent.builtin.graph import Graph, Node, Op, UnsupportedError
from nki_agent.builtin.lanes import IDENTITY
from nki_agent.builtin.lower import Lowering
from nki_agent.builtin.pacing import TILES_MAX, Pacer
from nki_agent.builtin.pending import Pending, Place, Value
from nki_agent.builtin.tile_steps import Access, Combine, Fill, Kind, Load, Step, Tile, step_writes

WORDS = {"add": "sum", "maximum": "max", "minimum": "min", "multiply": "product"}


class StripLowering(Lowering):
    """Lowers the nodes of a stage pass by pass."""

    strip_level = 0
    """The level of the steps of a strip in the current pass."""

    def _reduce(self, node: Node) -> Value:
        """The reduction of a strip, joined to the column of those before it."""
        source = self.value(node.inputs[0])
        if isinstance(source, tuple) or source.kind is not Kind.FULL:
            raise UnsupportedError(node.origin, "a reduction of what is the same in every row")
        # What is made from it belongs behind all strips.
        column = self.tile(f"{WORDS[node.function]}_so_far", Place(Kind.ROW, self.strip_level + 1))
        self.emit(
            self.strip_level - 1, Fill(dst=column, value=self.number(IDENTITY[node.function]))
        )
        strip = super()._reduce(node)
        assert isinstance(strip, Pending)
        join = Combine(dst=column, first=column, second=strip.tile, op=node.function)
        self.emit(self.strip_level, join)
        return Pending(column, (), Kind.ROW, self.strip_level + 1)

    def forget_wide(self) -> None:
        """Drop wide values, which the next pass makes anew."""
        self._values = {
            i: v for i, v in self._values.items() if isinstance(v, tuple) or v.kind is not Kind.FULL
        }
        kept = {i: v for i, v in self._inverses.items() if v.kind is not Kind.FULL}
        self._inverses = kept


class Passes:
    """In which pass each node of a stage is made."""

    def __init__(self, graph: Graph, places: Mapping[int, Place], outputs: Sequence[int]) -> None:
        """`places` says where each node would live if rows fitted."""
        self.graph = graph
        self.places = places
        self.outputs = outputs
        self.known: dict[int, int] = {}
        """Passes that must be over before a node's value is known."""
        for node_id in sorted(places):
            node = graph[node_id]
            before = [self.known.get(graph.base(i).id, 0) for i in node.inputs]
            self.known[node_id] = max(before, default=0) + (node.op is Op.REDUCE)
        last = max(self.known.values())
        self.count = last + any(self.is_wide(n) and self.known[n] == last for n in outputs)

    def is_wide(self, node_id: int) -> bool:
        """Whether it has a value for each column."""
        return self.places[node_id].kind is Kind.FULL

    def reductions(self, number: int) -> set[int]:
        """What a pass adds up."""
        return {
            n for n, known in self.known.items()
            if self.graph[n].op is Op.REDUCE and known == number + 1
        }  # fmt: skip

    def columns(self, number: int) -> set[int]:
        """What is made after so many passes from their reductions."""
        return {
            n for n, known in self.known.items()
            if not self.is_wide(n) and self.graph[n].op is not Op.REDUCE and known == number
        }  # fmt: skip

    @property
    def narrow_outputs(self) -> list[int]:
        """Results that are stored when all passes are over."""
        return [n for n in self.outputs if not self.is_wide(n)]

    def results(self, number: int) -> list[int]:
        """Wide results that a pass stores."""
        return [n for n in self.outputs if self.is_wide(n) and self.known[n] == number]

    def wide(self, number: int) -> set[int]:
        """Wide nodes that a pass makes: its results, and what its reductions read."""
        stack = [*self.results(number)]
        for node_id in self.reductions(number):
            stack.extend(self.graph.base(i).id for i in self.graph[node_id].inputs)
        found: set[int] = set()
        while stack:
            node_id = stack.pop()
            if node_id in self.known and self.is_wide(node_id) and node_id not in found:
                found.add(node_id)
                stack.extend(self.graph.base(i).id for i in self.graph[node_id].inputs)
        return found


def lower_strips(
    lowering: StripLowering,
    passes: Passes,
    operands: Mapping[int, Place],
    *,
    row_level: int,
    load: Callable[[int, Place], None],
    store: Callable[[int], None],
) -> None:
    """Fill the levels of `lowering`. `operands` says where each would be loaded if rows fitted.

    Raises:
        UnsupportedError: a reduction of what is no tile of rows.
    """
    places: dict[int, Place] = dict(passes.places)
    lowering.places = places
    for source, place in operands.items():
        if place.kind is not Kind.FULL:
            load(source, place)
    for number in range(passes.count + 1):
        strip = lowering.strip_level = row_level + 1 + 2 * number
        strips = passes.wide(number) | passes.reductions(number)
        for source in _wide_operands(lowering.graph, operands, strips):
            load(source, Place(Kind.FULL, strip))
        for node_id in sorted(strips | passes.columns(number)):
            kind = places[node_id].kind
            if kind in (Kind.FULL, Kind.ROW):
                places[node_id] = Place(kind, strip if node_id in strips else strip - 1)
            lowering.lower(lowering.graph[node_id])
        for node_id in passes.results(number):
            store(node_id)
        lowering.forget_wide()
    for node_id in passes.narrow_outputs:
        store(node_id)


def _wide_operands(graph: Graph, operands: Mapping[int, Place], nodes: set[int]) -> list[int]:
    """What these nodes read that has a value for each column."""
    read = {i for n in nodes for i in graph[n].inputs}
    return [s for s, place in operands.items() if place.kind is Kind.FULL and s in read]


def pace_strips(
    lowering: Lowering, row_level: int, estimate: Estimate, *, may_park: bool
) -> list[list[Step]]:
    """The steps by loop, those of each pass over strips in the fastest form that is found."""
    levels, names = [list(steps) for steps in lowering.levels], lowering.taken_names
    for level in range(row_level + 1, len(levels), 2):
        pacer = Pacer(
            estimate=estimate,
            floor_ns=0.0,
            names=names,
            num_tiles=TILES_MAX,
            has_phases=False,
            may_park=may_park,
        )
        levels[level] = list(pacer.pace(levels[level]).steps)
        names = count_names(names, levels[level])
    return levels


def count_names(names: Mapping[str, int], steps: Sequence[Step]) -> dict[str, int]:
    """The names that are taken once these steps are written."""
    found = dict(names)
    for tile in (t for step in steps for t in step_writes(step)):
        base, _, number = tile.name.rpartition("_")
        if not re.fullmatch(r"\d+", number):
            base, number = tile.name, "1"
        found[base] = max(found.get(base, 0), int(number))
    return found


def strip_bytes(
    levels: Sequence[Sequence[Step]],
    *,
    row_level: int,
    cols: int,
    block: int,
    kept: Sequence[Access] = (),
) -> int:
    """Bytes of one partition: strips twice, so that loads run ahead; whole rows of vectors once.

    Rows of `kept` are whole too, and lie where those of the tile before them lay: each strip is
    loaded as soon as the last pass over that tile is past it.
    """
    rows = {
        s.access: s.dst.dtype.itemsize
        for level in levels
        for s in level
        if isinstance(s, Load) and s.access in kept
    }
    total = sum(cols * itemsize for itemsize in rows.values())
    steps = [s for level in levels for s in level if not (isinstance(s, Load) and s.access in kept)]
    tiles: set[Tile] = {tile for step in steps for tile in step_writes(step)}
    for tile in tiles:
        width = cols if tile.level < row_level else 2 * block
        total += (width if tile.is_wide else 1) * tile.dtype.itemsize
    return total


def read_again(levels: Sequence[Sequence[Step]], row_level: int) -> tuple[Access, ...]:
    """What more than one pass loads."""
    steps = [step for level in levels[row_level + 1 :] for step in level]
    loads = [s for s in steps if isinstance(s, Load) and s.dst.kind is Kind.FULL]
    # What a pass changes where it lies is not there for the next one.
    changed = {t for s in steps if not isinstance(s, Load) for t in step_writes(s)}
    spoilt = {s.access for s in loads if s.dst in changed}
    count = Counter(s.access for s in loads if s.access not in spoilt)
    return tuple(access for access, number in count.items() if number > 1)
