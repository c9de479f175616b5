"""What the author decides before it writes a line: stages of steps on tiles, as data.

Law: a plan says what each stage loads, computes and stores, and how far its loops reach, at every
shape set that the task is tried at. No text is made here.
"""

from __future__ import annotations

from dataclasses import dataclass

from nki_agent.builtin.attention_sources import Behind, Cap, Mask, MoreDepth, Pages, Slope
from nki_agent.builtin.chain_plan import ChainPlan
from nki_agent.builtin.choices import Leaving
from nki_agent.builtin.graph import contiguous_strides
from nki_agent.builtin.reorder_plan import ReorderPlan
from nki_agent.builtin.resident_plan import Resident
from nki_agent.builtin.small_attention_plan import SmallAttentionPlan
from nki_agent.builtin.small_product_plan import SmallProductPlan
from nki_agent.builtin.tile_steps import Access, Load, Number, Size, Step, Store, Tile
from nki_agent.isa.dtype import DType


@dataclass(frozen=True, slots=True)
class Stored:
    """What a value in HBM is called and stored in.

    `strides` and `offset`, in elements at each shape set, are there for a part of a larger tensor.
    """

    name: str
    dtype: DType
    strides: tuple[Size, ...] | None = None
    offset: Size | None = None

    def layout(self, shape: tuple[int, ...], index: int) -> tuple[tuple[int, ...], int]:
        """Strides and offset of a value of this shape at one shape set."""
        if self.strides is None or self.offset is None:
            return contiguous_strides(shape), 0
        return tuple(size[index] for size in self.strides), self.offset[index]


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
class Total:
    """What a stage adds up over the innermost of its loops, for each tile of rows."""

    tile: Tile
    target: Access
    dtype: DType
    is_by_products: bool = False
    """Whether the Tensor Engine adds up, in PSUM."""
    is_over_rows: bool = False
    """Whether what is added up lies on the partitions, as often as they hold it.

    Then the last of `outer` are the rows of the result, and a tile has as many of them.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSum:
    """A sum down the columns of what a pass over rows has in SBUF."""

    target: Access
    """Over the columns."""
    dtype: DType
    sums: Tile
    """In PSUM, for all sums of the stage."""
    marks: Tile
    """As in AddDown, for all sums of the stage."""


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
    is_apart: bool = False
    """Whether packed rows go one by one where a step takes a value of each."""
    has_middle: bool = False
    """Whether what is packed in a partition is the last of `outer`, not rows that follow."""
    after: tuple[Store, ...] = ()
    """Stores of columns that all tiles added to."""
    passes: int = 0
    """Rows that do not fit are walked in strips of `col_block` columns, so many times each: behind
    the loop over rows come by turns the steps of a strip and those after all strips."""
    kept: tuple[Access, ...] = ()
    """What the first pass that reads it leaves in SBUF, whole rows, for the later ones."""
    cuts: tuple[int, ...] = ()
    """Innermost steps where a phase begins that runs one tile behind the one before."""
    is_step: bool = False
    """Whether it is one step of a loop over time, its outermost axis."""
    period: Size | None = None
    """Rows that share their columns of one number a row with those so many rows on: the columns
    are loaded once, for as many whole periods as the partitions hold."""
    total: Total | None = None
    """Where there is one, the last of `outer` is the innermost loop, inside of a tile of rows."""
    once: tuple[Step, ...] = ()
    """Innermost steps that are made once for each tile of rows, behind level 0."""
    is_stacked: bool = False
    """Whether a tile holds the rows of several turns of the loop around them."""
    sums: tuple[ColumnSum, ...] = ()
    """Sums down the columns, over all tiles."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, in order but for `once`."""
        return (*self.once, *(step for level in self.levels for step in level), *self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTail:
    """What whole rows of a product go through before they leave SBUF."""

    whole: Load
    """The step of `levels` that the product stands for: its rows, and where they would be."""
    block: Tile
    """Columns of them that one PSUM bank gives."""
    levels: tuple[tuple[Step, ...], ...]
    """As in a RowsPlan, over the loops of the product."""
    cuts: tuple[int, ...]
    """As in a RowsPlan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """A product beside another one; an operand that both share is None."""

    x: Access | None
    w: Access | None
    product: Tile
    is_column: bool = False
    """Whether it has one column, whatever the other one has."""


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
    """Rows of x that are kept transposed together, so that each block of w serves them all, and
    that one load may bring."""
    col_group: int
    """Columns of one product in PSUM."""
    is_bank_wide: bool
    """Whether a product fills a PSUM bank."""
    keep_w: bool
    """Whether all of w stays in SBUF."""
    depth_group: int | None
    """Rows of w that are multiplied at a time; None takes all."""
    x_each: int
    """Rows of x that share a partition while they are loaded to be turned."""
    w_each: int
    """The same of columns of w."""
    w_banks: int
    """Products' columns of w that are loaded at a time, where not all of w is kept."""
    product: Tile
    levels: tuple[tuple[Step, ...], ...]
    """The epilogue: steps before all loops, in each batch loop, and for a tile of the result."""
    has_double_rows: bool = False
    """Whether one product takes two blocks of the depth: fp8 where the chip can."""
    is_step: bool = False
    """Whether it is one step of a loop over time, its outermost axis."""
    is_mixed: bool = False
    """Whether DMA widens an operand while it loads it."""
    is_w_first: bool = False
    """Whether w is loaded before x: it is there while an earlier stage still makes x."""
    has_short_rows: bool = False
    """Whether rows of the result are shorter than what DMA moves at its full rate."""
    is_split: bool = False
    """Whether each float32 operand is a sum of two bfloat16 numbers."""
    tail: RowTail | None = None
    """What follows for whole rows, which are then not stored."""
    twin: Twin | None = None
    """Another product of the same rows, that the steps of a tile read beside this one."""
    last_column: Size | None = None
    """The last column of x that is not zero, minus the row; None if any may be."""
    is_mirrored: bool = False
    """Whether the result is symmetric and w is x turned: one half is made, the other is a copy."""


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
    rows_each: int | None = None
    """Short rows of the result are made up to so many in each partition, and stored together."""
    is_blocked: bool = False
    """Whether the last two of `batch` are made together: more rows, and what n follows in memory.

    Then each partition takes one of the latter, with all that follows it in the result.
    """
    is_step: bool = False
    """Whether it is one step of a loop over time, its outermost axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldPlan:
    """target[n] = the reduction of source[m, n] over m, for each batch; n lies side by side.

    `partitions` says what lies on them: `batch` (its last axis), `runs` (parts of n), or `depth`
    (m, whose partitions are joined at the end).
    """

    title: str
    function: str
    batch: tuple[Size, ...]
    source: Access
    """Over batch loops, m, n."""
    target: Access
    """Over batch loops, n."""
    dtype: DType
    out_dtype: DType
    m: Size
    n: Size
    partitions: str
    row_block: int
    """Elements of m that are loaded at a time, in each partition."""
    col_block: int
    takes_neighbours: bool = False
    """Whether neighbours along m share a partition where m lies on them: they make one long run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionPlan:
    """softmax(f(q k^T)) v, one block of query rows at a time; `levels` are the steps of f.

    The last of them belong to one product, as in a MatmulPlan; they leave the scores in the tile
    that `scores` names.
    """

    title: str
    batch: tuple[Size, ...]
    q: Access
    k: Access
    v: Access
    out: Access
    dtype: DType
    """Of queries and keys."""
    value_dtype: DType
    """Of values and of the weights that multiply them."""
    out_dtype: DType
    queries: Size
    keys: Size
    depth: Size
    value_depth: Size
    rows_each: int
    """Queries or keys that share a partition while they are loaded to be turned."""
    product: Tile
    scores: Tile
    levels: tuple[tuple[Step, ...], ...]
    first_key: Size | None
    """The first key that a row sees, minus the row; None for the very first."""
    last_key: Size | None
    """The last key that a row sees, minus the row; None for the very last."""
    beside: Tile | None = None
    """The score that counts in a row's sum beside those of its keys, and has no value."""
    scale: Number | None = None
    """What scores are multiplied by that stay in PSUM; None where they pass through SBUF."""
    is_turned: bool = False
    """Whether scores are made with the keys on the partitions, as weights are needed."""
    loads_turned: bool = False
    """Whether the DMA engines turn queries and keys while they load them."""
    loads_rows: bool = False
    """Whether rows are loaded once for all heads, which the innermost loop is over."""
    has_runs: bool = False
    """Whether each partition takes values of keys that follow each other: longer runs."""
    is_shared: bool = False
    """Whether keys are the values, and are turned from those in SBUF."""
    mask: Mask | None = None
    slope: Slope | None = None
    cap: Cap | None = None
    """What keeps turned scores so small that no maximum is taken off."""
    more: MoreDepth | None = None
    """A product that is added to the first."""
    behind: Behind | None = None
    """Where other keys follow those of `k` and `v`."""
    pages: Pages | None = None
    """Where keys and values are tables of pages, whose rows are loaded for all heads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One axis that a window moves along: pixels before and after, and how the window moves."""

    num_in: Size
    num_out: Size
    kernel: int
    stride: int
    dilation: int
    before: int
    """Elements outside that the first window covers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """A depthwise sum with the channels of all images one after the other on the partitions."""

    first_tap: int
    """The first of the taps of the Tensor Engine, which follow each other."""
    lead_tap: int
    """The one of them that comes first: it reaches every column, if one does."""
    group: int
    """Tiles whose sums are made by turns, so that none waits for its own last step."""
    is_kept: bool
    """Whether weights stay in SBUF for the next lanes of the same channels."""
    beside: tuple[int, ...] = ()
    """Taps that the Scalar Engine multiplies and GpSimd adds up, the first for every column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling:
    """A pool of windows side by side that a convolution's tiles go through."""

    function: str
    kernel: tuple[int, int]
    """Lines and columns of a window."""
    source: Tile
    """What is pooled."""
    product: Tile
    steps: tuple[Step, ...]
    """What follows, for a tile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionPlan:
    """y[image, out] = sum of weight[out, in, tap] x[image, in, moved by the tap].

    Channels lie on the partitions. Tiles of the result are rows of output channels, and columns of
    pixels in order.
    """

    title: str
    x: str
    weight: str
    dtype: DType
    """Of both operands."""
    mixing: str
    """`dense`, `grouped` or `depthwise`; dense with `groups` has zeros between them."""
    is_transposed: bool
    images: Size
    channels_in: Size
    channels_out: Size
    groups: Size
    spans: tuple[Span, ...]
    stack: tuple[int, ...]
    """Taps of each axis that lie side by side on the partitions."""
    band: int
    """Lines of the result that one load of the input serves."""
    lines_each: int
    """Neighbouring lines of a plane of the result that share a product."""
    pitch: int
    """Partitions from the channels of one such line to those of the next."""
    tensor_taps: int
    """Steps of a depthwise sum on the Tensor Engine; the Vector Engine takes the others."""
    product: Tile
    levels: tuple[tuple[Step, ...], ...]
    """What follows: for a block of output channels, for it in each image, and for a tile."""
    is_split: bool = False
    """Whether each float32 operand is a sum of two bfloat16 numbers."""
    planes_each: int = 1
    """Neighbouring planes of the result, as many lines of each of which share a product."""
    lanes: Lanes | None = None
    """Where there are such, images are no loop."""
    pool: Pooling | None = None
    tiles_each: int = 1
    """Tiles of pixels of few channels that share a PSUM tile, `pitch` partitions apart."""
    tiles_moved: int = 1
    """Tiles of whole lines, one after the other, whose loads and stores are one transfer each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """Each window of pixels reduced, axis by axis; channels of all images lie on the partitions."""

    title: str
    x: str
    dtype: DType
    function: str
    rows: Size
    spans: tuple[Span, ...]
    band: int
    """Results along the first axis that one load of the input serves."""
    product: Tile
    levels: tuple[tuple[Step, ...], ...]
    """What follows, for a tile."""
    outside: Number | None = None
    """What lies outside, where it is not the neutral element of the function."""


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
    num_sums: int = 1
    """Partial results that tiles of rows are added to by turns, so that they need not wait."""
    taken: Matrix | None = None
    """Which of `rows` are added, where they are taken from a table on the way."""
    weight: Matrix | None = None
    """What each row that is taken is multiplied with."""
    is_turned: bool = False
    """Whether rows are taken from a table that lies turned in SBUF."""


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
    is_network: bool = False
    """Whether whole rows are sorted by exchanges of pairs, all of a step at once."""
    is_paired: bool = False
    """Whether PSUM holds one of each of these pairs."""
    group: int = 1
    """Columns of a group: the maxima of groups are ranked first, then what is in the best."""
    together: int = 1
    """Tiles of rows that are ranked by turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BagPlan:
    """The sum of the rows of `table` that each row of `index` names, times their weights."""

    title: str
    table: Matrix
    index: Matrix
    weight: Matrix
    out: Matrix
    is_turned: bool = False
    """Whether the table lies turned in SBUF, where GpSimd takes from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPlan:
    """The largest (or smallest) element of each row so far."""

    title: str
    op: str
    source: Matrix
    out: Matrix


ByIndexPlan = PickPlan | RankPlan | RunningPlan | BagPlan
Stage = (
    RowsPlan
    | MatmulPlan
    | TransposePlan
    | FoldPlan
    | AttentionPlan
    | ConvolutionPlan
    | PoolPlan
    | ChainPlan
    | SmallProductPlan
    | ReorderPlan
    | SmallAttentionPlan
    | Resident
    | ByIndexPlan
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A kernel argument with its shape at each shape set; a static one has no shape."""

    name: str
    shape: tuple[Size, ...] | None
    number: Size | None = None
    """What a static argument is at each shape set, if it is a whole number."""
    dtype: DType | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSpan:
    """Stages from `start` to `end` that are run step by step."""

    start: int
    end: int
    steps: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A whole kernel."""

    arguments: tuple[Argument, ...]
    buffers: tuple[Buffer, ...]
    results: tuple[str, ...]
    updates: tuple[tuple[str, str], ...] = ()
    """Arguments that are overwritten in the end, each with the buffer that holds its new value."""
    stages: tuple[Stage, ...]
    loops: tuple[LoopSpan, ...] = ()
    leaving: Leaving
    """What copies turned operands out of PSUM."""
    partitions: int
    bank_cols: int
    """float32 columns of one PSUM bank: the widest result of one matmul."""
