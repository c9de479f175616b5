"""Copies of short runs, put in order on the chip, as data."""

from __future__ import annotations

from dataclasses import dataclass

from nki_agent.builtin.tile_steps import Size
from nki_agent.isa.dtype import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One axis of a copy: its size, and its stride in the source."""

    size: Size
    stride: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class ReorderPlan:
    """target = source with its axes in another order; the target lies row by row."""

    title: str
    source: str
    offset: Size
    target: str
    dtype: DType
    loops: tuple[Run, ...]
    """The outermost axes of the target, a turn of a loop for each element."""
    outer: Run | None
    """Axes of `rows` of which as many as fit share a tile."""
    rows: Run
    """What lies on the partitions."""
    inner: tuple[Run, ...]
    """What each partition holds, in the order of the target."""

    @property
    def by_source(self) -> tuple[int, ...]:
        """The inner axes in the order of the source, the furthest apart first."""
        strides = [max(run.stride) for run in self.inner]
        return tuple(sorted(range(len(self.inner)), key=lambda axis: -strides[axis]))
