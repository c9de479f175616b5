"""Joins a pool to the convolution that makes its input: what it pools never leaves SBUF.

Law: windows lie side by side, so that each is within one tile of whole windows of lines; nobody
else reads the convolution's result. What no window covers is not made.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from nki_agent.builtin.balance import Estimate
from nki_agent.builtin.plan import ConvolutionPlan, Pooling, PoolPlan, Span, Stage
from nki_agent.builtin.stage_tensors import stage_reads
from nki_agent.builtin.tile_steps import Load, Store
from nki_agent.builtin.tilings import PAIR
from nki_agent.builtin.window_text import lies_side_by_side
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine


def join_pools(stages: Sequence[Stage], *, kept: Collection[str], chip: ChipSpec) -> list[Stage]:
    """The stages with each such pool in its convolution.

    `kept` are tensors that the kernel returns.
    """
    readers: dict[str, list[Stage]] = {}
    for stage in stages:
        for tensor in stage_reads(stage):
            readers.setdefault(tensor, []).append(stage)
    joined: dict[int, Stage] = {}
    gone: list[str] = []
    for index, stage in enumerate(stages):
        if not isinstance(stage, ConvolutionPlan):
            continue
        made = _only_result(stage)
        readers_of = readers.get(made, []) if made not in kept else []
        if len(readers_of) != 1 or not isinstance(pool := readers_of[0], PoolPlan):
            continue
        if _is_crowded(stage, chip):
            continue
        bank_cols = chip.psum_bank_bytes // DType.FLOAT32.itemsize
        if (found := _join(stage, pool, bank_cols)) is not None:
            joined[index] = found
            gone.append(made)
    left = [joined.get(index, stage) for index, stage in enumerate(stages)]
    return [s for s in left if not (isinstance(s, PoolPlan) and s.x in gone)]


def _only_result(plan: ConvolutionPlan) -> str:
    """What a convolution stores of each tile, if it is one tensor and nothing is stored else."""
    stores = [s for level in plan.levels for s in level if isinstance(s, Store)]
    return stores[0].access.tensor if len(stores) == 1 else ""


def _is_crowded(plan: ConvolutionPlan, chip: ChipSpec) -> bool:
    """Whether a pool of its own goes faster: on all partitions, where few channels lie on half.

    It then has no place behind several passes of the Vector Engine over the same few.
    """
    bank_cols = chip.psum_bank_bytes // DType.FLOAT32.itemsize
    estimate = Estimate(chip, bank_cols, len(plan.images))
    passes = sum(estimate.engine(step) is Engine.VECTOR for step in plan.levels[-1])
    return passes > 1 and max(plan.channels_out) * PAIR <= chip.partitions


def _join(plan: ConvolutionPlan, pool: PoolPlan, bank_cols: int) -> ConvolutionPlan | None:
    last = plan.levels[-1]
    store = next((s for s in last if isinstance(s, Store)), None)
    is_plain = plan.lines_each == 1 and not plan.is_transposed and plan.lanes is None
    reads_pixels = any(isinstance(s, Load) and any(s.access.strides[-1]) for s in last)
    if store is None or not is_plain or reads_pixels or len(plan.spans) > PAIR:
        return None
    if pool.outside is not None or not all(map(lies_side_by_side, pool.spans)):
        return None
    # A sequence may be pooled as images of one line.
    count = len(plan.spans)
    more, spans = pool.spans[:-count], pool.spans[-count:]
    kernel = (1, *(span.kernel for span in spans))[-PAIR:]
    band = plan.band // kernel[0] * kernel[0]
    if any(span.kernel > 1 for span in more) or len(spans) < count:
        return None
    if math.prod(kernel) > bank_cols or band < 1:
        return None
    steps = tuple(_over_images(s, plan) if isinstance(s, Store) else s for s in pool.levels[-1])
    return replace(
        plan,
        title=f"{plan.title}, {pool.title.lower()}",
        spans=tuple(_covered(a, b) for a, b in zip(plan.spans, spans, strict=True)),
        band=band,
        levels=(*plan.levels[:-1], tuple(s for s in last if s is not store)),
        tiles_each=1,
        pitch=0,
        pool=Pooling(
            function=pool.function,
            kernel=(kernel[0], kernel[1]),
            source=store.src,
            product=pool.product,
            steps=steps,
        ),
    )


def _covered(span: Span, pool: Span) -> Span:
    """The result up to the last pixel that a window covers."""
    return replace(span, num_out=tuple(n * pool.kernel for n in pool.num_out))


def _over_images(store: Store, plan: ConvolutionPlan) -> Store:
    """A store of a pool, whose rows are channels of all images, over images and channels."""
    row, pixel = store.access.strides
    image = tuple(step * n for step, n in zip(row, plan.channels_out, strict=True))
    return replace(store, access=replace(store.access, strides=(image, row, pixel)))
