"""Values in tiles while the nodes of a stage are lowered, and what is still pending on them.

Law: a value is kept as up to two scalar operators over a tile until something needs it; then it
becomes the scale and bias of an activation, the first half of `scalar_tensor_tensor`, or a
`tensor_scalar`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nki_agent.builtin.graph import Graph, Node, Op, is_position_mask
from nki_agent.builtin.tile_steps import (
    Access,
    Accumulate,
    Activate,
    AddDown,
    AddUp,
    AffineSelect,
    Combine,
    Copy,
    CopyWhere,
    Cut,
    Fill,
    Invert,
    Iota,
    Kind,
    Load,
    Number,
    Operand,
    Reduce,
    Scalar,
    Scale,
    ScaleCombine,
    Scan,
    Step,
    Store,
    Tile,
    step_reads,
)
from nki_agent.isa.dtype import DType

SCALAR_PAIR = 2
GEN3 = 3
NAMES = {
    "add": "sums", "subtract": "difference", "multiply": "product", "maximum": "larger",
    "minimum": "smaller", "square": "squares", "exp": "exps", "reciprocal": "inverse",
    "gelu_apprx_tanh": "gelu", "abs": "magnitude", "sqrt": "root", "rsqrt": "inverse_root",
}  # fmt: skip
"""What a tile is called by the function that made it, where the function's name does not do."""
REDUCED_NAMES = {
    "add": "row_sum", "maximum": "row_max", "minimum": "row_min", "multiply": "row_product",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pending:
    """A tile and the scalar operators that are still to be applied to it."""

    tile: Tile
    scalars: tuple[Scalar, ...]
    kind: Kind
    level: int


Value = Pending | Number


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node lives in its stage: which axes it has, and the loop that makes it."""

    kind: Kind
    level: int


class Tiles:
    """The tiles and steps of one stage in the making.

    `tiles` are the values that exist already: loaded operands, or the product in PSUM. `numbers`
    are the constants at each shape set. `places` has every node that is lowered.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        places: Mapping[int, Place],
        numbers: Mapping[int, Number],
        generation: int,
        num_levels: int,
        is_packed: bool = False,
    ) -> None:
        """`is_packed`: a partition holds several rows, so a row's value is no scalar operand."""
        self.is_packed = is_packed
        self.graph = graph
        self.places = places
        self.generation = generation
        self.levels: list[list[Step]] = [[] for _ in range(num_levels)]
        self._numbers = numbers
        self._values: dict[int, Value] = {}
        self._names: dict[str, int] = {}
        self._width = len(next(iter(numbers.values()), (0.0,)))
        self._inverses: dict[int, Pending] = {}
        self._negatives: dict[str, Tile] = {}
        self._fills: dict[Number, Tile] = {}
        self._scaled: dict[Pending, Tile] = {}
        self._waiting: set[int] = set()
        self._users: dict[int, list[int]] | None = None
        self.positions: dict[int, tuple[Place, Access]] = {}

    # -- tiles ------------------------------------------------------------------------------------
    def name(self, wanted: str) -> str:
        """A name that is not taken: `exps`, then `exps_2`."""
        count = self._names.get(wanted, 0) + 1
        self._names[wanted] = count
        return wanted if count == 1 else f"{wanted}_{count}"

    def reserve(self, names: Iterable[str]) -> None:
        """Names that no tile may have: those of tensors and sizes."""
        self._names |= dict.fromkeys(names, 1)

    def go_on(self, names: Mapping[str, int]) -> None:
        """Names that other tiles of the stage have: a mapping from `taken_names`."""
        self._names |= names

    @property
    def taken_names(self) -> dict[str, int]:
        """How often each name was asked for."""
        return dict(self._names)

    def tile(self, wanted: str, place: Place, dtype: DType = DType.FLOAT32) -> Tile:
        """A new tile."""
        return Tile(name=self.name(wanted), kind=place.kind, dtype=dtype, level=place.level)

    def bind(self, node_id: int, tile: Tile) -> None:
        """This node is in this tile already."""
        self._values[node_id] = Pending(tile, (), tile.kind, tile.level)

    def offer(self, node_id: int, place: Place, access: Access) -> None:
        """Whole numbers along the axes, which are made where a step needs them as a tile."""
        self.positions[node_id] = place, access

    def emit(self, level: int, step: Step) -> None:
        """Append a step to the loop of this depth."""
        self.levels[level].append(step)

    def num_readers(self, node_id: int) -> int:
        """Nodes that read a value; an output counts."""
        if self._users is None:
            self._users = self.graph.users()
        return len(self._users[node_id])

    def number(self, value: float) -> Number:
        """The same number at every shape set."""
        return (float(value),) * self._width

    # -- values -----------------------------------------------------------------------------------
    def value(self, node_id: int) -> Value:
        """The value of a node; views inside a stage only rename axes."""
        node = self.graph[node_id]
        if node_id in self._values:
            return self._values[node_id]
        if node.op is Op.CONST:
            return self._numbers[node_id]
        if node.op is Op.VIEW:
            return self.value(node.inputs[0])
        if node_id in self.positions:
            place, access = self.positions[node_id]
            tile = self.tile("positions", place)
            self.emit(place.level, Iota(dst=tile, access=access))
            self.bind(node_id, tile)
            return self._values[node_id]
        if is_position_mask(self.graph.nodes, node):
            self._values[node_id] = self._compare(node)
            return self._values[node_id]
        raise KeyError(node_id)

    def _compare(self, node: Node) -> Value:
        """Whole numbers along the axes compared with 0, as a tile."""
        value = self.value(node.inputs[0])
        assert isinstance(value, Pending)
        against = Scalar(op=node.function, operand=self.number(0))
        return replace(value, scalars=(against,))

    def settle(self, node_id: int, wanted: str = "", dtype: DType | None = None) -> Tile:
        """The node's value in a tile, with all pending operators applied."""
        value = self.value(node_id)
        node = self.graph[node_id]
        if isinstance(value, tuple):
            place = self.places[node_id]
            tile = self.tile(wanted or "constant", place, dtype or DType.FLOAT32)
            self.emit(place.level, Fill(dst=tile, value=value))
            return tile
        tile = self.apply(value, wanted or self._name_of(node), dtype)
        if dtype is None:
            is_renamed = node.op is Op.VIEW and node_id not in self._values
            self._values[node.inputs[0] if is_renamed else node_id] = self._pending(tile)
        return tile

    def apply(self, value: Pending, wanted: str, dtype: DType | None = None) -> Tile:
        """Materialise a pending value; a tile as it is when nothing is pending."""
        place = Place(value.kind, value.level)
        if not value.scalars:
            same = dtype is None or value.tile.dtype is dtype
            if same and value.tile.kind is value.kind and not value.tile.in_psum:
                return value.tile
            copied = self.tile(wanted or "copied", place, dtype or DType.FLOAT32)
            self.emit(value.level, Copy(dst=copied, src=value.tile))
            return copied
        tile, scalars = value.tile, value.scalars
        while scalars:
            now, scalars = scalars[:SCALAR_PAIR], scalars[SCALAR_PAIR:]
            target = self.tile(wanted, place, DType.FLOAT32 if scalars else dtype or DType.FLOAT32)
            self.emit(value.level, Scale(dst=target, data=tile, scalars=now))
            tile = target
        return tile

    def _as_scalar(self, node_id: int) -> Operand:
        """A narrow value as the scalar operand of an instruction."""
        value = self.value(node_id)
        if isinstance(value, tuple):
            return value
        return self.settle(node_id, self._row_name(node_id))

    @staticmethod
    def _name_of(node: Node) -> str:
        return node.label or NAMES.get(node.function, node.function) or "values"

    def _row_name(self, node_id: int) -> str:
        node = self.graph.base(node_id)
        if node.op is Op.REDUCE:
            return REDUCED_NAMES.get(node.function, "")
        return f"row_{self._name_of(node)}"

    @staticmethod
    def _pending(tile: Tile) -> Pending:
        return Pending(tile, (), tile.kind, tile.level)

    def _activate(self, function: str, value: Pending, place: Place, wanted: str = "") -> Tile:
        scale, bias, data = self._linear(value)
        wanted = wanted or NAMES.get(function, function)
        is_narrow = place.kind in (Kind.ROW, Kind.ONE)
        tile = self.tile(f"row_{wanted}" if is_narrow else wanted, place)
        self.emit(
            place.level, Activate(dst=tile, function=function, data=data, scale=scale, bias=bias)
        )
        return tile

    def _linear(self, value: Pending) -> tuple[Operand | None, Operand | None, Tile]:
        """Pending operators as scale and bias; what does not fit is applied first."""
        match value.scalars:
            case ():
                return None, None, value.tile
            case (Scalar(op="multiply") as only,):
                return only.operand, None, value.tile
            case (Scalar(op="add") as only,):
                return None, self._bias(only.operand), value.tile
            case (Scalar(op="subtract", reverse=False) as only,):
                return None, self._bias(self._negate(only.operand)), value.tile
            case (Scalar(op="subtract", reverse=True) as only,):
                return self.number(-1), self._bias(only.operand), value.tile
            case (Scalar(op="multiply") as first, Scalar(op="add") as second):
                return first.operand, self._bias(second.operand), value.tile
            case (Scalar(op="multiply") as first, Scalar(op="subtract", reverse=False) as second):
                bias = self._bias(self._negate(second.operand))
                return first.operand, bias, value.tile
            case _:
                # Made once, whatever functions of it there are.
                if value not in self._scaled:
                    self._scaled[value] = self.apply(value, "scaled")
                return None, None, self._scaled[value]

    def _bias(self, operand: Operand) -> Operand:
        """A bias; before NeuronCore-v3 a number needs a column of its own."""
        if isinstance(operand, Tile) or self.generation >= GEN3:
            return operand
        if operand not in self._fills:
            tile = self.tile("bias_column", Place(Kind.ONE, 0))
            self.levels[0].insert(0, Fill(dst=tile, value=operand))
            self._fills[operand] = tile
        return self._fills[operand]

    def _negate(self, operand: Operand) -> Operand:
        if not isinstance(operand, Tile):
            return tuple(-number for number in operand)
        if operand.name not in self._negatives:
            tile = self.tile(f"neg_{operand.name}", Place(operand.kind, operand.level))
            minus = Scalar(op="multiply", operand=self.number(-1))
            self.emit(operand.level, Scale(dst=tile, data=operand, scalars=(minus,)))
            self._negatives[operand.name] = tile
        return self._negatives[operand.name]

    # -- results ----------------------------------------------------------------------------------
    def expect(self, nodes: Sequence[int]) -> None:
        """These nodes are going to be finished, one by one."""
        self._waiting = set(nodes)

    def finish(self, node_id: int, wanted: str, dtype: DType) -> Tile:
        """The node's value in a tile of the result's dtype, written by the step that made it."""
        self._waiting.discard(node_id)
        value = self.value(node_id)
        if isinstance(value, tuple):
            return self.settle(node_id, wanted, dtype)
        if not value.scalars:
            renamed = self._rename(value.tile, wanted, dtype)
            if renamed is not None:
                self._values[node_id] = self._pending(renamed)
                return renamed
        return self.apply(value, wanted, dtype)

    def _rename(self, tile: Tile, wanted: str, dtype: DType) -> Tile | None:
        """Give a tile another name and dtype in place, if only its last step knows it."""
        steps = self.levels[tile.level]
        makers = [i for i, step in enumerate(steps) if getattr(step, "dst", None) == tile]
        read = [step for level in self.levels for step in level if tile in step_reads(step)]
        if len(makers) != 1 or tile.in_psum:
            return None
        was_rounded = tile.dtype is not DType.FLOAT32 and tile.dtype is not dtype
        if was_rounded and not (tile.dtype.is_integer and dtype.is_integer):
            return None
        step = steps[makers[0]]
        if isinstance(step, Load | Store | Cut | CopyWhere) or read:
            return None
        if isinstance(step, Activate) and step.sums is not None and tile.dtype is not dtype:
            return None
        if tile.dtype is not dtype and any(self._needs(node, tile) for node in self._waiting):
            return None  # another result is made from it before it is rounded
        renamed = replace(tile, name=self.name(wanted), dtype=dtype)
        steps[makers[0]] = _written_to(step, renamed)
        for node, value in self._values.items():
            self._values[node] = _renamed(value, tile, renamed)
        return renamed

    def _needs(self, node_id: int, tile: Tile) -> bool:
        """Whether a value is this tile, or waits for operators that read it."""
        value = self.value(node_id)
        if isinstance(value, tuple):
            return False
        return value.tile == tile or any(scalar.operand == tile for scalar in value.scalars)


def _renamed(value: Value, tile: Tile, renamed: Tile) -> Value:
    """The same value where a tile has another name."""
    if isinstance(value, tuple):
        return value
    scalars = tuple(replace(s, operand=renamed) if s.operand == tile else s for s in value.scalars)
    return replace(value, tile=renamed if value.tile == tile else value.tile, scalars=scalars)


def _written_to(step: Step, tile: Tile) -> Step:
    """The same step with another destination."""
    match step:
        case Store():
            raise AssertionError("a store writes no tile")
        case Load():
            return replace(step, dst=tile)
        case (
            Fill() | Cut() | Iota() | AffineSelect() | Activate() | Scale() | Combine()
            | ScaleCombine() | Reduce() | Invert() | Copy() | CopyWhere() | Scan() | Accumulate()
            | AddUp() | AddDown()
        ):  # fmt: skip
            return replace(step, dst=tile)


def fold_negations(steps: list[Step]) -> list[Step]:
    """A reduction that is only ever read negated is made negated: `tensor_reduce(negate=True)`."""
    result = list(steps)
    for step in steps:
        if not isinstance(step, Scale) or len(step.scalars) != 1:
            continue
        only = step.scalars[0]
        if only.op != "multiply" or only.reverse or isinstance(only.operand, Tile):
            continue
        readers = [s for s in result if step.data in step_reads(s)]
        makers = [s for s in result if isinstance(s, Reduce) and s.dst == step.data]
        if len(readers) == 1 and len(makers) == 1 and all(n == -1.0 for n in only.operand):
            result[result.index(makers[0])] = replace(makers[0], dst=step.dst, negate=True)
            result.remove(step)
    return result


def fold_columns(steps: list[Step]) -> list[Step]:
    """Two `tensor_scalar` on columns, of which nobody else reads the first, become one."""
    result = list(steps)
    for step in steps:
        if not isinstance(step, Scale) or step.dst.is_wide or len(step.scalars) != 1:
            continue
        readers = [s for s in result if step.dst in step_reads(s)]
        if len(readers) != 1 or not isinstance(readers[0], Scale):
            continue
        reader = readers[0]
        together = reader.data == step.dst and len(reader.scalars) == 1
        if together and not any(s.operand == step.dst for s in reader.scalars):
            scalars = (*step.scalars, *reader.scalars)
            result[result.index(reader)] = replace(reader, data=step.data, scalars=scalars)
            result.remove(step)
    return result
