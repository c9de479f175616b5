"""Helper functions, sizes and loops that printed products share, and stored transposes."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass

from nki_agent.builtin.chain_plan import ChainPlan
from nki_agent.builtin.choices import Leaving
from nki_agent.builtin.head_rows_text import (
    LOAD_BEHIND,
    LOAD_HEADS,
    LOAD_PAGES,
    TAKE_HEAD,
    TURN_HEAD,
)
from nki_agent.builtin.plan import (
    AttentionPlan,
    ConvolutionPlan,
    MatmulPlan,
    Plan,
    TransposePlan,
)
from nki_agent.builtin.print_rows import OUTER_NAMES, TIME
from nki_agent.builtin.print_steps import layout_of
from nki_agent.builtin.regions import Axis, Regions, Window
from nki_agent.builtin.small_product_plan import SmallProductPlan
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Access, Size

LOAD_BLOCKS = '''def load_blocks(dst, src):
    """Loads src [K, N] into dst [128, block of K, N]: K runs along the partitions."""
    depth, cols = src.shape
    whole = depth // PARTITIONS
    # One transfer takes as many blocks of short rows as make long ones.
    each = max(1, 2 * BANK // cols)
    for k0 in range(0, whole, each):
        count = min(each, whole - k0)
        blocks = src[k0 * PARTITIONS : (k0 + count) * PARTITIONS, :]
        blocks = blocks.reshape_dim(0, (count, PARTITIONS)).permute((1, 0, 2))
        nisa.dma_copy(dst=dst[:, k0 : k0 + count, :], src=blocks)
    size = depth % PARTITIONS
    if size:
        nisa.dma_copy(dst=dst[:size, whole, :], src=src[whole * PARTITIONS :, :])
'''
LOAD_TRANSPOSED = '''def load_transposed(dst, src):
    """Loads src [M, K] and turns it on the Tensor Engine into dst [128, block of K, M]."""
    num_rows, depth = src.shape
    whole = num_rows // PARTITIONS
    # One transfer takes as many tiles of short rows as make long ones.
    each = max(1, 2 * BANK // depth)
    for t0 in range(0, whole, each):
        count = min(each, whole - t0)
        tiles = nl.ndarray((PARTITIONS, count, depth), dtype=src.dtype, buffer=nl.sbuf)
        rows = src[t0 * PARTITIONS : (t0 + count) * PARTITIONS, :]
        nisa.dma_copy(dst=tiles, src=rows.reshape_dim(0, (count, PARTITIONS)).permute((1, 0, 2)))
        for t in range(count):
            r0 = (t0 + t) * PARTITIONS
            turn(dst[:, :, r0 : r0 + PARTITIONS], tiles[:, t, :])
    rest = num_rows % PARTITIONS
    if rest:
        tile = nl.ndarray((rest, depth), dtype=src.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=src[whole * PARTITIONS :, :])
        turn(dst[:, :, whole * PARTITIONS :], tile)
'''
LEAVE_PSUM = {
    Leaving.SCALAR: '''def leave_psum(dst, src):
    """Copies a tile out of PSUM, on the Scalar Engine, which has time."""
    nisa.activation(dst=dst, op=nl.copy, data=src)
''',
    Leaving.BOTH: '''def leave_psum(dst, src):
    """Copies src [P, K, N] out of PSUM, half of the columns on each of two engines."""
    half = src.shape[2] // 2
    if half:
        nisa.activation(dst=dst[:, :, :half], op=nl.copy, data=src[:, :, :half])
    nisa.tensor_copy(dst=dst[:, :, half:], src=src[:, :, half:])
''',
}
"""How turned tiles leave PSUM where not by plain copies."""
LOAD_SHORT = '''def load_short_rows(dst, src, each):
    """As load_transposed, with up to `each` neighbouring rows in a partition: longer runs."""
    num_rows, depth = src.shape
    each = max(1, min(each, num_rows // PARTITIONS))
    while num_rows % each:
        each -= 1
    for r0 in range(0, num_rows, PARTITIONS * each):
        lanes = min(PARTITIONS, (num_rows - r0) // each)
        tile = nl.ndarray((lanes, each, depth), dtype=src.dtype, buffer=nl.sbuf)
        rows = src[r0 : r0 + lanes * each, :].reshape_dim(0, (lanes, each))
        nisa.dma_copy(dst=tile, src=rows)
        for k0 in range(0, depth, PARTITIONS):
            size = min(PARTITIONS, depth - k0)
            block = dst[:size, k0 // PARTITIONS, r0 : r0 + lanes * each]
            block = block.reshape_dim(1, (lanes, each)).permute((0, 2, 1))
            for e0 in range(0, each, BANK // PARTITIONS):
                count = min(BANK // PARTITIONS, each - e0)
                turned = nl.ndarray((size, count, lanes), dtype=tile.dtype, buffer=nl.psum)
                for e in range(count):
                    nisa.nc_transpose(dst=turned[:, e, :], data=tile[:, e0 + e, k0 : k0 + size])
                nisa.tensor_copy(dst=block[:, e0 : e0 + count, :], src=turned)
'''
LOAD_TURNED = '''def load_turned(dst, src):
    """Loads src [M, K] into dst [128, block of K, M]; the DMA engines turn it on the way."""
    depth = src.shape[1]
    for k0 in range(0, depth, PARTITIONS):
        size = min(PARTITIONS, depth - k0)
        nisa.dma_transpose(dst=dst[:size, k0 // PARTITIONS, :], src=src[:, k0 : k0 + size])
'''
TURN = '''def turn(dst, tile):
    """Writes the transpose of tile [M, K] into dst [128, block of K, M]."""
    rows, depth = tile.shape
    whole = depth // PARTITIONS
    # Four transposes share a PSUM bank and leave it in one copy.
    for k0 in range(0, whole, BANK // PARTITIONS):
        count = min(BANK // PARTITIONS, whole - k0)
        turned = nl.ndarray((PARTITIONS, count, rows), dtype=tile.dtype, buffer=nl.psum)
        for k in range(count):
            start = (k0 + k) * PARTITIONS
            nisa.nc_transpose(dst=turned[:, k, :], data=tile[:, start : start + PARTITIONS])
        nisa.tensor_copy(dst=dst[:, k0 : k0 + count, :], src=turned)
    size = depth % PARTITIONS
    if size:
        turned = nl.ndarray((size, 1, rows), dtype=tile.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=turned[:, 0, :], data=tile[:, whole * PARTITIONS :])
        nisa.tensor_copy(dst=dst[:size, whole : whole + 1, :], src=turned)
'''


def steps_version(helper: str) -> str:
    """A helper that turns columns in steps, as `load_runs` puts the rows that they meet."""
    changes = {
        "def turn(": "def turn_steps(",
        "Writes the transpose of tile [M, K] into dst [128, block of K, M].": (
            "As turn, where each partition takes columns that follow each other."
        ),
        "            start = (k0 + k) * PARTITIONS\n": (
            "            cols = tile[:, k0 + k : whole * PARTITIONS : whole]\n"
        ),
        "data=tile[:, start : start + PARTITIONS]": "data=cols",
    }
    for old, new in changes.items():
        helper = helper.replace(old, new)
    return helper


LEAVE_SPLIT = '''def leave_split(dst, src):
    """Writes src as a sum of two bfloat16 numbers: rounded, and what the rounding left."""
    nisa.activation(dst=dst[:, 0], op=nl.copy, data=src)
    nisa.tensor_tensor(dst=dst[:, 1], data1=src, data2=dst[:, 0], op=nl.subtract)
'''
LOAD_BLOCKS_SPLIT = '''def load_blocks_split(dst, src):
    """Loads src [K, N] into dst [128, 2, block of K, N], a sum of two bfloat16 numbers."""
    depth, cols = src.shape
    whole = depth // PARTITIONS
    # One transfer takes as many blocks of short rows as make long ones.
    each = max(1, 2 * BANK // cols)
    size = depth % PARTITIONS
    for n0 in range(0, cols, 4 * BANK):
        wide = min(4 * BANK, cols - n0)
        for k0 in range(0, whole, each):
            count = min(each, whole - k0)
            tile = nl.ndarray((PARTITIONS, count, wide), dtype=src.dtype, buffer=nl.sbuf)
            blocks = src[k0 * PARTITIONS : (k0 + count) * PARTITIONS, n0 : n0 + wide]
            blocks = blocks.reshape_dim(0, (count, PARTITIONS)).permute((1, 0, 2))
            nisa.dma_copy(dst=tile, src=blocks)
            split(dst[:, :, k0 : k0 + count, n0 : n0 + wide], tile)
        if size:
            tile = nl.ndarray((size, wide), dtype=src.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=src[whole * PARTITIONS :, n0 : n0 + wide])
            split(dst[:size, :, whole, n0 : n0 + wide], tile)
'''
SPLIT = '''def split(dst, src):
    """As leave_split, of a tile in SBUF: on engines that have time beside products."""
    nisa.activation(dst=dst[:, 0], op=nl.copy, data=src)
    nisa.tensor_tensor(
        dst=dst[:, 1], data1=src, data2=dst[:, 0], op=nl.subtract, engine=nisa.engine.gpsimd
    )
'''


STORE_MIRRORED = '''def store_mirrored(dst, tile, skip):
    """Stores the transpose of tile [M, N] into dst [N, M], but for its first columns."""
    rows, cols = tile.shape
    for c0 in range(skip, cols, PARTITIONS):
        size = min(PARTITIONS, cols - c0)
        turned = nl.ndarray((size, rows), dtype=tile.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=tile[:, c0 : c0 + size])
        mirror = nl.ndarray((size, rows), dtype=tile.dtype, buffer=nl.sbuf)
        nisa.activation(dst=mirror, op=nl.copy, data=turned)
        nisa.dma_copy(dst=dst[c0 : c0 + size, :], src=mirror)
'''


RUNS_BYTES = 1024
"""Rows of w up to this are loaded in runs of several, where x has them in the same order."""


def runs_version(helper: str) -> str:
    """A helper that loads blocks of K, with neighbouring rows in each partition: longer runs."""
    changes = {
        "def load_blocks": "def load_runs",
        "src[k0 * PARTITIONS : (k0 + count) * PARTITIONS, :]": (
            "src[: whole * PARTITIONS, :].reshape_dim(0, (PARTITIONS, whole))"
        ),
        "src[k0 * PARTITIONS : (k0 + count) * PARTITIONS, n0 : n0 + wide]": (
            "src[: whole * PARTITIONS, n0 : n0 + wide].reshape_dim(0, (PARTITIONS, whole))"
        ),
        "blocks.reshape_dim(0, (count, PARTITIONS)).permute((1, 0, 2))": (
            "blocks[:, k0 : k0 + count, :]"
        ),
    }
    name = "load_blocks_split" if "_split(" in helper else "load_blocks"
    for old, new in changes.items():
        helper = helper.replace(old, new)
    text = f'"""As {name}, but each partition takes rows that follow each other: longer runs."""'
    return re.sub('""".*"""', text, helper)


def split_version(helper: str) -> str:
    """A helper that turns, with dst [128, 2, block of K, M] as a sum of two bfloat16 numbers."""
    changes = {
        "def load_short_rows(": "def load_short_rows_split(",
        "def load_transposed(": "def load_transposed_split(",
        "def turn(": "def turn_split(",
        " turn(dst[:, :,": " turn_split(dst[:, :, :,",
        "dst [128, block of K, M]": "dst [128, 2, block of K, M], in two parts",
        "As load_transposed,": "As load_transposed_split,",
        "dst[:size, k0": "dst[:size, :, k0",
        "reshape_dim(1, (lanes, each)).permute((0, 2, 1))": (
            "reshape_dim(2, (lanes, each)).permute((0, 1, 3, 2))"
        ),
        "dst=block[:, e0": "dst=block[:, :, e0",
        "dst[:, k0 : k0 + count, :]": "dst[:, :, k0 : k0 + count, :]",
        "dst[:size, whole : whole + 1, :]": "dst[:size, :, whole : whole + 1, :]",
        "nisa.tensor_copy(dst=": "leave_split(dst=",
    }
    for old, new in changes.items():
        helper = helper.replace(old, new)
    return helper


def is_unit(stride: Size) -> bool:
    """Whether neighbours along an axis are neighbours in memory."""
    return all(s == 1 for s in stride)


@dataclass(slots=True)
class _Needs:
    """Which helpers the stages of a plan call, in one of two versions."""

    turns: bool = False
    blocks: bool = False
    short: bool = False
    runs: bool = False
    steps: bool = False
    """Weights that are turned as values in runs need them."""
    by_dma: bool = False
    """Rows of 16 bits that DMA turns."""
    heads: bool = False
    """Rows of all heads."""
    pages: bool = False
    """The same of pages."""
    behind: bool = False
    """Values in two tensors."""
    bands: bool = False
    """Inputs and weights of convolutions."""

    def attend(self, stage: AttentionPlan) -> None:
        """What an attention calls."""
        by_dma, in_runs = stage.loads_turned, stage.has_runs
        self.heads |= stage.loads_rows
        self.pages |= stage.pages is not None
        self.behind |= stage.behind is not None
        more = [] if stage.more is None else [stage.more.q_each, stage.more.k_each]
        self.blocks |= not in_runs
        self.runs |= in_runs
        self.steps |= in_runs
        self.turns |= not (stage.is_turned or (by_dma and in_runs)) or 1 in more
        self.by_dma |= by_dma
        in_rows = stage.loads_rows and stage.pages is None
        self.short |= stage.rows_each > 1 and not (by_dma or in_rows)
        self.short |= any(each > 1 for each in more)

    def turning(self) -> list[str]:
        """Those that turn."""
        turns = [TURN, LOAD_TRANSPOSED] * self.turns
        return [LOAD_SHORT] * self.short + turns + [TURN_HEAD] * self.heads


def helpers_of(plan: Plan) -> list[str]:
    """The helper functions that the stages of a plan call, in order of definition."""
    plain, split = _Needs(), _Needs()
    for stage in plan.stages:
        match stage:
            case ConvolutionPlan():
                split.bands |= stage.is_split
            case MatmulPlan():
                needs = split if stage.is_split else plain
                x_turns = not is_x_ready(stage)
                w_turns = is_w_turned(stage)
                each = [stage.x_each] * x_turns + [stage.w_each] * w_turns
                needs.turns |= 1 in each
                needs.short |= any(n > 1 for n in each)
                needs.runs |= in_runs(stage)
                needs.blocks |= not (x_turns and w_turns) and not in_runs(stage)
            case SmallProductPlan():
                plain.turns |= stage.x_each == 1
                plain.short |= stage.x_each > 1
            case AttentionPlan():
                plain.attend(stage)
            case ChainPlan():
                plain.turns = plain.blocks = True
                plain.short |= stage.rows_each > 1
            case _:
                pass
    turning, steps = plain.turning(), [steps_version(TURN)] * plain.steps
    if any(isinstance(stage, MatmulPlan) and stage.is_mixed for stage in plan.stages):
        # DMA widens rows on their way to be turned.
        turning = [h.replace("dtype=src.dtype", "dtype=dst.dtype") for h in turning]
    if plan.leaving is Leaving.SCALAR:
        turning, steps = turning + steps, []
    if turning and plan.leaving is not Leaving.VECTOR:
        copy = "nisa.tensor_copy(dst="
        turning = [helper.replace(copy, "leave_psum(dst=") for helper in turning]
        turning.insert(0, LEAVE_PSUM[plan.leaving])
    # What few queries turn is short: not worth a share for two engines.
    turning += steps
    mirrors = any(isinstance(s, MatmulPlan) and s.is_mirrored for s in plan.stages)
    found = (
        [STORE_MIRRORED] * mirrors
        + [LOAD_TURNED] * plain.by_dma
        + [LOAD_BLOCKS] * plain.blocks
        + [runs_version(LOAD_BLOCKS)] * plain.runs
        + [LOAD_HEADS, TAKE_HEAD] * plain.heads
        + [LOAD_PAGES] * plain.pages
        + [LOAD_BEHIND] * plain.behind
        + turning
    )
    found += [SPLIT] * (split.blocks or split.runs or split.bands)
    found += [LOAD_BLOCKS_SPLIT] * split.blocks
    found += [runs_version(LOAD_BLOCKS_SPLIT)] * split.runs
    own = [split_version(helper) for helper in split.turning()]
    return found + [LEAVE_SPLIT] * (bool(own) or split.bands) + own


def call_loader(dst: str, src: str, each: int, *, version: str = "") -> str:
    """The call that loads rows and turns them."""
    if each == 1:
        return f"load_transposed{version}({dst}, {src})"
    return f"load_short_rows{version}({dst}, {src}, each={each})"


def is_x_ready(plan: MatmulPlan) -> bool:
    """Whether x lies as [K, M] already."""
    return is_unit(plan.x.strides[-2]) and not is_unit(plan.x.strides[-1])


def in_runs(plan: MatmulPlan) -> bool:
    """Whether each partition takes rows of K that follow each other, the same of x and w."""
    is_short = max(plan.n) * plan.dtype.itemsize <= RUNS_BYTES
    return is_x_ready(plan) and not is_w_turned(plan) and is_short and not plan.has_double_rows


def is_w_turned(plan: MatmulPlan) -> bool:
    """Whether w lies as [N, K]."""
    return is_unit(plan.w.strides[-2]) and not is_unit(plan.w.strides[-1])


class Loops:
    """Batch loops and the sizes of a stage."""

    def __init__(
        self, batch: tuple[Size, ...], source: Source, scope: Scope, *, is_step: bool = False
    ) -> None:
        """`is_step`: the outermost axis is time, whose loop is around the whole stage."""
        self.names = ((TIME, *OUTER_NAMES) if is_step else OUTER_NAMES)[: len(batch)]
        self.is_step = is_step
        self.batch = batch
        self.source = source
        self.scope = scope

    def name_sizes(self, first: str, **sizes: tuple[Size, str]) -> None:
        """One line for each size, in terms of the shape of the tensor that it belongs to.

        Batch sizes belong to `first`; `-` before a tensor's name reads it from its last axis.
        """
        batch = {f"num_{n}": (size, first) for n, size in zip(self.names, self.batch, strict=True)}
        for name, (size, owner) in (batch | sizes).items():
            tensor = owner.removeprefix("-")
            text = self.scope.from_shapes(size, tensor, from_last=owner != tensor)
            self.source.add(f"{name} = {text}")
            if any(s != 1 for s in size):
                self.scope.names[name] = size

    def loop(self, level: int) -> contextlib.AbstractContextManager[None]:
        """The loop of this depth."""
        if self.is_step and level == 0:
            return contextlib.nullcontext()
        return self.source.block(f"for {self.names[level]} in range(num_{self.names[level]}):")

    def axes(self, *minor: tuple[str, Size]) -> list[Axis]:
        """Batch axes and two more."""
        batch = zip((f"num_{n}" for n in self.names), self.batch, strict=True)
        return [Axis(name=name, size=size) for name, size in (*batch, *minor)]

    def windows(self, row: Window, col: Window) -> list[Window]:
        """The current batch index and a window of rows and columns."""
        return [*(Window(start=n) for n in self.names), row, col]


def swap_axes(access: Access) -> Access:
    """The same tensor with its two matrix axes exchanged."""
    *batch, major, minor = access.strides
    return Access(tensor=access.tensor, strides=(*batch, minor, major), offset=access.offset)


class TransposePrinter:
    """Prints one TransposePlan into a function body."""

    def __init__(self, plan: TransposePlan, source: Source, scope: Scope) -> None:
        self.plan = plan
        self.source = source
        self.scope = scope
        self.loops = Loops(plan.batch, source, scope, is_step=plan.is_step)

    def print(self) -> None:
        """The whole transpose."""
        plan = self.plan
        read = plan.source.tensor
        self.loops.name_sizes(read, num_rows=(plan.m, read), num_cols=(plan.n, f"-{read}"))
        self.source.add(f"col_block = {plan.col_block}")
        rows, cols = ("num_rows", plan.m), ("num_cols", plan.n)
        self.read = Regions(self.source, self.scope, self.loops.axes(rows, cols))
        self.write = Regions(self.source, self.scope, self.loops.axes(cols, rows))
        self.read.prepare(layout_of(plan.source))
        self.write.prepare(layout_of(plan.target))
        self._batch(0)

    def _batch(self, level: int) -> None:
        if level < len(self.plan.batch):
            with self.loops.loop(level):
                self._batch(level + 1)
            return
        add, plan = self.source.add, self.plan
        dtype = f"nl.{plan.dtype.value}"
        self.source.note("A bank of rows becomes one long run of each result row.")
        with self.source.block("for r0 in range(0, num_rows, BANK):"):
            add("group = min(BANK, num_rows - r0)")
            with self.source.block("for c0 in range(0, num_cols, col_block):"):
                add("cols = min(col_block, num_cols - c0)")
                add("tiles = []")
                with self.source.block("for m0 in range(0, group, PARTITIONS):"):
                    add("rows = min(PARTITIONS, group - m0)")
                    add(f"tile = nl.ndarray((rows, cols), dtype={dtype}, buffer=nl.sbuf)")
                    windows = self.loops.windows(
                        Window(start="r0 + m0", count="rows"), Window(start="c0", count="cols")
                    )
                    text = self.read.text(layout_of(plan.source), windows)
                    add(f"nisa.dma_copy(dst=tile, src={text})")
                    add("tiles.append(tile)")
                with self.source.block("for n0 in range(0, cols, PARTITIONS):"):
                    add("size = min(PARTITIONS, cols - n0)")
                    add(f"turned = nl.ndarray((size, group), dtype={dtype}, buffer=nl.psum)")
                    with self.source.block("for t in range(len(tiles)):"):
                        add("m0 = t * PARTITIONS")
                        add("rows = tiles[t].shape[0]")
                        add(
                            "nisa.nc_transpose(dst=turned[:, m0 : m0 + rows],"
                            " data=tiles[t][:, n0 : n0 + size])"
                        )
                    add(f"turned_tile = nl.ndarray((size, group), dtype={dtype}, buffer=nl.sbuf)")
                    add("nisa.tensor_copy(dst=turned_tile, src=turned)")
                    windows = self.loops.windows(
                        Window(start="c0 + n0", count="size"), Window(start="r0", count="group")
                    )
                    text = self.write.text(layout_of(plan.target), windows)
                    add(f"nisa.dma_copy(dst={text}, src=turned_tile)")
