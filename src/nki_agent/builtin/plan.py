"""What the author decides before it writes a line: tiles, loops and steps, as data.

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
class Load:
    """HBM to SBUF."""

    dst: Tile
    access: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """SBUF to HBM."""

    access: Access
    src: Tile


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
    """Overwrite where the predicate is not 0."""

    dst: Tile
    src: Operand
    predicate: Tile


Step = (
    Load
    | Store
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
)


def step_reads(step: Step) -> tuple[Tile, ...]:
    """The tiles that a step reads."""
    found: tuple[Operand | None, ...]
    match step:
        case Load() | Fill() | Iota():
            found = ()
        case Store():
            found = (step.src,)
        case Activate():
            found = (step.data, step.scale, step.bias)
        case Scale():
            found = (step.data, *(s.operand for s in step.scalars))
        case Combine():
            found = (step.first, step.second)
        case ScaleCombine():
            found = (step.data, step.scalar.operand, step.other)
        case Reduce() | Invert() | AffineSelect():
            found = (step.data,)
        case Copy():
            found = (step.src,)
        case CopyWhere():
            found = (step.dst, step.src, step.predicate)
    return tuple(tile for tile in found if isinstance(tile, Tile))


def step_writes(step: Step) -> tuple[Tile, ...]:
    """The tiles that a step writes."""
    match step:
        case Store():
            return ()
        case Activate():
            return (step.dst,) if step.sums is None else (step.dst, step.sums)
        case (
            Load()
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
        ):
            return (step.dst,)


@dataclass(frozen=True, slots=True)
class Stored:
    """What a value in HBM is called and stored in.

    `strides` and `offset`, in elements at each shape set, are there for a part of a larger tensor.
    """

    name: str
    dtype: DType
    strides: tuple[Size, ...] | None = None
    offset: Size | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A tensor in HBM that the kernel allocates: a result, or what passes between stages."""

    name: str
    shape: tuple[Size, ...]
    dtype: DType
    is_result: bool
    cols_of: str = ""
    """The operand that gives a product its last axis, with `-` in front if by its own last axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsPlan:
    """One pass over rows: steps by the depth of the loop that they belong to.

    Level 0 is before all loops, then one level for each outer loop, one for the loop over column
    blocks, and the innermost for the loop over row tiles. `is_flat` folds the columns of a tensor
    without row structure onto all partitions.
    """

    title: str
    outer: tuple[Size, ...]
    rows: Size
    cols: Size
    col_block: int | None
    """Columns of one tile; None keeps whole rows."""
    is_flat: bool
    rows_each: int | None
    """Short rows are packed, up to so many in each partition; None puts one row in each."""
    levels: tuple[tuple[Step, ...], ...]
    passes: int = 0
    """Rows that do not fit are walked in strips of `col_block` columns, so many times each: behind
    the loop over rows come by turns the steps of a strip and those after all strips."""
    cuts: tuple[int, ...] = ()
    """Innermost steps where a phase begins that runs one tile behind the one before."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps in order."""
        return tuple(step for level in self.levels for step in level)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulPlan:
    """x[M, K] @ w[K, N] for each batch, with what follows fused into the eviction from PSUM."""

    title: str
    batch: tuple[Size, ...]
    x: Access
    """Over batch loops, M, K."""
    w: Access
    """Over batch loops, K, N."""
    dtype: DType
    """Of both operands."""
    m: Size
    k: Size
    n: Size
    row_group: int
    """Rows of x that are kept transposed together, so that each block of w serves them all."""
    col_group: int
    """Columns of one product in PSUM."""
    is_bank_wide: bool
    """Whether a product fills a PSUM bank."""
    keep_w: bool
    """Whether all of w stays in SBUF."""
    product: Tile
    levels: tuple[tuple[Step, ...], ...]
    """The epilogue: steps before all loops, in each batch loop, and for a tile of the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposePlan:
    """target[n, m] = source[m, n] for each batch, through the Tensor Engine."""

    title: str
    batch: tuple[Size, ...]
    source: Access
    target: Access
    dtype: DType
    m: Size
    n: Size
    col_block: int
    """Columns of the source that are loaded at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionPlan:
    """softmax(q k^T * scale + mask) v, one block of query rows at a time."""

    title: str
    batch: tuple[Size, ...]
    q: Access
    k: Access
    v: Access
    out: Access
    mask: Access | None
    dtype: DType
    out_dtype: DType
    scale: Number | None
    queries: Size
    keys: Size
    depth: Size
    value_depth: Size
    is_causal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """A tensor in HBM that lies row by row, seen as a matrix."""

    tensor: str
    rows: Size
    cols: Size
    dtype: DType


@dataclass(frozen=True, slots=True, kw_only=True)
class PickPlan:
    """Rows or elements of `table` by run-time indices: taken, overwritten, or added to."""

    title: str
    function: str
    """`take_rows`, `take_cols`, `put_rows`, `add_rows`, `mark_cols`."""
    table: Matrix | Number
    """What is taken from, or what `out` holds before rows are put or added: perhaps one number."""
    index: Matrix
    rows: Matrix | Number | None
    """What is put or added; None where rows are taken."""
    out: Matrix
    is_one_hot: bool = False
    """Whether rows are added through products with one-hot rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlan:
    """The first values of each row in descending or ascending order, and where they were."""

    title: str
    source: Matrix
    values: Matrix | None
    places: Matrix | None
    count: Size
    is_descending: bool
    rows_each: int | None = None
    """Short rows are loaded and stored up to so many for each partition; None for one at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BagPlan:
    """The sum of the rows of `table` that each row of `index` names, times their weights."""

    title: str
    table: Matrix
    index: Matrix
    weight: Matrix
    out: Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class InterleavePlan:
    """Elements of several matrices by turns: the last axis of `out` counts the parts."""

    title: str
    parts: tuple[Matrix, ...]
    out: Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPlan:
    """The largest (or smallest) element of each row so far."""

    title: str
    op: str
    source: Matrix
    out: Matrix


ByIndexPlan = PickPlan | RankPlan | RunningPlan | BagPlan | InterleavePlan
Stage = RowsPlan | MatmulPlan | TransposePlan | AttentionPlan | ByIndexPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A kernel argument with its shape at each shape set; a static one has no shape."""

    name: str
    shape: tuple[Size, ...] | None
    dtype: DType | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A whole kernel."""

    arguments: tuple[Argument, ...]
    buffers: tuple[Buffer, ...]
    results: tuple[str, ...]
    stages: tuple[Stage, ...]
    partitions: int
    bank_cols: int
    """float32 columns of one PSUM bank: the widest result of one matmul."""
