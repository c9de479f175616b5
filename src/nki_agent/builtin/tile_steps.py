"""What a kernel does to tiles: loads, stores and engine instructions, as data.

A `Step` is one NKI instruction on named tiles. A `Size` or `Number` holds one value for each shape
set that the task is tried at, so that the printer can say what it depends on. No text is made
here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine

Size = tuple[int, ...]
"""A size at each shape set."""
Number = tuple[float, ...]
"""A number at each shape set."""


class Kind(StrEnum):
    """Which axes of a tile of rows a value has."""

    FULL = "full"  # a row for each partition
    ROW = "row"  # one number for each partition
    VECTOR = "vector"  # one row, the same in every partition
    ONE = "one"  # one number, the same in every partition


WIDE = frozenset({Kind.FULL, Kind.VECTOR})
"""Kinds with a free axis of columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One named tile. `level` is the depth of the loop that it is made in."""

    name: str
    kind: Kind
    dtype: DType
    level: int
    in_psum: bool = False
    cols: Size | None = None
    """Its columns where they are not those of the stage."""

    @property
    def is_wide(self) -> bool:
        """Whether it has columns."""
        return self.kind in WIDE


Operand = Tile | Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A strided part of a tensor in HBM over the axes of a stage: outer loops, rows, columns.

    `strides` are in elements, one Size for each axis, 0 where the tensor does not vary.
    """

    tensor: str
    strides: tuple[Size, ...]
    offset: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """One half of `tensor_scalar`: an operator and a number, or a value for each partition."""

    op: str
    operand: Operand
    reverse: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Rows of a table of so many, of which each partition takes the one that its index names."""

    index: Tile
    rows: Size
    cols: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """HBM to SBUF."""

    dst: Tile
    access: Access
    lookup: Lookup | None = None
    """How rows are found that do not follow each other; `access` then names their table alone."""

    @property
    def index(self) -> Tile | None:
        """What names the rows."""
        return None if self.lookup is None else self.lookup.index


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """How often a tile is stored, and how far its places lie apart, in elements."""

    count: Size
    stride: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """SBUF to HBM."""

    access: Access
    src: Tile
    copies: Copies | None = None
    """Where one transfer stores a flat tile several times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Another name for some columns of a tile: `start`, `start + step`, ... Nothing is moved."""

    dst: Tile
    src: Tile
    start: Size
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Iota:
    """Whole numbers along the axes of the stage: the strides of `access` are steps."""

    dst: Tile
    access: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class AffineSelect:
    """`data` where the whole numbers of `access` compare so with 0, else one number."""

    dst: Tile
    data: Tile
    access: Access
    op: str
    value: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """One number everywhere."""

    dst: Tile
    value: Number
    engine: Engine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Activate:
    """function(data * scale + bias), and the row sums of it on the way."""

    dst: Tile
    function: str
    data: Tile
    scale: Operand | None = None
    bias: Operand | None = None
    sums: Tile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """One or two operators with numbers or per-partition values."""

    dst: Tile
    data: Tile
    scalars: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Combine:
    """first op second."""

    dst: Tile
    first: Tile
    second: Tile
    op: str
    engine: Engine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleCombine:
    """(data scalar) op other, in one pass. `reverse` swaps the two sides of `op`."""

    dst: Tile
    data: Tile
    scalar: Scalar
    op: str
    other: Tile
    reverse: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduce:
    """A reduction of each row."""

    dst: Tile
    op: str
    data: Tile
    negate: bool = False
    by_halves: bool = False
    """Whether halves of the row are compared first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invert:
    """1 / data, exact."""

    dst: Tile
    data: Tile


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """The same values, perhaps in another dtype."""

    dst: Tile
    src: Tile
    engine: Engine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyWhere:
    """Overwrite where the predicate is not 0, or where it is."""

    dst: Tile
    src: Operand
    predicate: Tile
    is_reversed: bool = False
    otherwise: Number | None = None
    """What all else becomes; None where it stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Along each row: state = (first op state) + second, from `initial` on."""

    dst: Tile
    first: Tile
    second: Tile
    op: str
    initial: float
    is_backward: bool
    is_before: bool = False
    """Whether a column gets the state in front of it; the first gets `initial`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulate:
    """What a tile of rows adds to a column that is kept for all tiles."""

    dst: Tile
    src: Tile
    op: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddUp:
    """What a tile adds to a total in PSUM: a product with the matrix of who belongs to which row.

    The stage knows that matrix; it holds ones and zeros.
    """

    dst: Tile
    src: Tile


@dataclass(frozen=True, slots=True, kw_only=True)
class AddDown:
    """What a tile adds to a sum down its columns in PSUM: a product with one column of ones.

    A bank holds several sums, and the columns of each in parts, one in each partition: `marks` are
    zeros but for a column of ones in their middle, and are cut so that it stands at the part's own.
    """

    dst: Tile
    src: Tile
    marks: Tile
    number: int
    """Which sum of the stage."""


Step = (
    Load
    | Store
    | Cut
    | Iota
    | AffineSelect
    | Fill
    | Activate
    | Scale
    | Combine
    | ScaleCombine
    | Reduce
    | Invert
    | Copy
    | CopyWhere
    | Scan
    | Accumulate
    | AddUp
    | AddDown
)


def step_reads(step: Step) -> tuple[Tile, ...]:
    """The tiles that a step reads."""
    found: tuple[Operand | None, ...]
    match step:
        case Load() | Fill() | Iota():
            found = (step.index,) if isinstance(step, Load) else ()
        case Store() | Copy() | Cut():
            found = (step.src,)
        case Activate():
            found = (step.data, step.scale, step.bias)
        case Scale():
            found = (step.data, *(s.operand for s in step.scalars))
        case Combine() | Scan():
            found = (step.first, step.second)
        case ScaleCombine():
            found = (step.data, step.scalar.operand, step.other)
        case Reduce() | Invert() | AffineSelect():
            found = (step.data,)
        case Accumulate() | AddUp() | AddDown():
            found = (step.dst, step.src, step.marks if isinstance(step, AddDown) else None)
        case CopyWhere():
            held = step.dst if step.otherwise is None else None
            found = (held, step.src, step.predicate)
    return tuple(tile for tile in found if isinstance(tile, Tile))


def step_writes(step: Step) -> tuple[Tile, ...]:
    """The tiles that a step writes."""
    match step:
        case Store() | Accumulate() | AddUp() | AddDown():
            return ()
        case Activate():
            return (step.dst,) if step.sums is None else (step.dst, step.sums)
        case (
            Load()
            | Cut()
            | Iota()
            | AffineSelect()
            | Fill()
            | Scale()
            | Combine()
            | ScaleCombine()
            | Reduce()
            | Invert()
            | Copy()
            | CopyWhere()
            | Scan()
        ):
            return (step.dst,)


def loaded_dtype(stored: DType, *, is_scalar: bool) -> DType:
    """The dtype of a loaded tile: scalar operands, one value a partition, are float32."""
    if is_scalar:
        return DType.FLOAT32
    return DType.UINT8 if stored is DType.BOOL else stored
