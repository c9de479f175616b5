"""Regions of tensors in HBM as kernel text: slices of a reshaped tensor, or an access pattern.

Law: a tensor that lies row by row along the axes of its stage is sliced, which reads best; any
other layout is an `.ap(...)` with its strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis of a stage: what its size is called, and the size."""

    name: str
    size: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A tensor over the axes of a stage: an element stride for each, 0 where it does not vary."""

    tensor: str
    strides: tuple[Size, ...]
    offset: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Part of one axis: `start` and `count` as text; a loop axis has no count."""

    start: str = "0"
    count: str | None = None


class Regions:
    """Makes the text of regions; names a reshaped tensor once, where `prepare` is called."""

    def __init__(self, source: Source, scope: Scope, axes: Sequence[Axis]) -> None:
        """`axes` in order: loops first, then the two axes of a tile."""
        self._source = source
        self._scope = scope
        self._axes = tuple(axes)
        self._views: dict[Layout, str] = {}

    @property
    def num_loops(self) -> int:
        """Axes in front of the two of a tile."""
        return len(self._axes) - 2

    def prepare(self, layout: Layout) -> None:
        """Name the tensor seen along the axes, if a plain reshape does it."""
        if layout in self._views or not self.is_plain(layout):
            return
        shape: list[Size] = []
        names: list[str] = []
        for index, (axis, stride) in enumerate(zip(self._axes, layout.strides, strict=True)):
            present = any(stride)
            if present or index >= self.num_loops:
                shape.append(axis.size if present else (1,) * len(axis.size))
                names.append(axis.name if present else "1")
        if list(self._scope.shapes[layout.tensor]) == shape:
            self._views[layout] = layout.tensor
            return
        reshaped = f"{layout.tensor}.reshape(({', '.join(names)}))"
        if not any(layout.strides[-2]):
            self._views[layout] = reshaped
            return
        name = f"{layout.tensor}_{'rows' if self.num_loops == 0 else 'blocks'}"
        if name in self._views.values():
            self._views[layout] = reshaped
            return
        self._views[layout] = name
        self._source.add(f"{name} = {reshaped}")

    def is_plain(self, layout: Layout) -> bool:
        """Whether the tensor is exactly these axes, row by row, at every shape set."""
        if any(layout.offset):
            return False
        return all(self._covers(layout, index) for index in range(len(layout.offset)))

    def _covers(self, layout: Layout, index: int) -> bool:
        step = 1
        for axis, stride in zip(reversed(self._axes), reversed(layout.strides), strict=True):
            if any(stride) and axis.size[index] != 1:
                if stride[index] != step:
                    return False
                step *= axis.size[index]
        total = 1
        for size in self._scope.shapes[layout.tensor]:
            total *= size[index]
        return total == step

    def text(self, layout: Layout, windows: Sequence[Window], *, spread: str = "") -> str:
        """The region cut out by one window for each axis.

        `spread` is the number of partitions that a tensor without rows is repeated on when it is
        read.
        """
        view = self._views.get(layout)
        if view is None:
            return self._pattern(layout, windows, spread)
        parts = [
            window.start
            for window, stride in zip(windows[:-2], layout.strides[:-2], strict=True)
            if any(stride)
        ]
        for window, axis, stride in zip(
            windows[-2:], self._axes[-2:], layout.strides[-2:], strict=True
        ):
            parts.append(_slice(window, axis) if any(stride) else ":")
        text = view if set(parts) == {":"} else f"{view}[{', '.join(parts)}]"
        return f"{text}.broadcast(0, {spread})" if spread else text

    def _pattern(self, layout: Layout, windows: Sequence[Window], spread: str) -> str:
        terms = [self._scope.size(layout.offset)] if any(layout.offset) else []
        steps = self.paces(layout.strides)
        for window, step in zip(windows, steps, strict=True):
            if step != "0" and window.start != "0":
                terms.append(times(window.start, step))
        row, col = windows[-2:]
        row_step, col_step = steps[-2:]
        row_count = spread or (row.count if row_step != "0" else "1")
        col_count = col.count if col_step != "0" else "1"
        pattern = [
            [row_step, str(row_count)],
            [col_step if col_step != "0" else "1", str(col_count)],
        ]
        return access_pattern(layout.tensor, pattern, terms)

    def paces(self, strides: Sequence[Size]) -> list[str]:
        """Each stride as text; "0" where the tensor does not vary.

        Where the two axes of a tile are walked as one, the last stride is that of both.
        """
        counts = [axis.size for axis in self._axes]
        if len(strides) < len(counts):
            counts = [*counts[: len(strides) - 1], ()]
        return [
            self._scope.pace(stride, counts[axis], _span(strides, counts, axis + 1))
            if any(stride)
            else "0"
            for axis, stride in enumerate(strides)
        ]


def _span(strides: Sequence[Size], counts: Sequence[Size], axis: int) -> Size:
    """How far a whole axis reaches: the stride of the one before it, where they lie row by row."""
    if axis >= len(strides):
        return ()
    return tuple(n * step for n, step in zip(counts[axis], strides[axis], strict=False))


def _slice(window: Window, axis: Axis) -> str:
    if window.count is None:
        return window.start
    if window.start == "0":
        return ":" if window.count == axis.name else f":{window.count}"
    return f"{window.start} : {window.start} + {window.count}"


def times(factor: str, pace: str) -> str:
    """`factor * pace` without needless ones and with the brackets that it needs."""
    if pace == "1":
        return factor
    wrapped = f"({factor})" if any(op in factor for op in " +-") else factor
    return f"{wrapped} * {pace}"


def access_pattern(tensor: str, pattern: Sequence[Sequence[str]], offset: Sequence[str]) -> str:
    """`tensor.ap(pattern=[[step, count], ...], offset=...)`."""
    inner = ", ".join(f"[{step}, {count}]" for step, count in pattern)
    shift = f", offset={' + '.join(offset)}" if offset else ""
    return f"{tensor}.ap(pattern=[{inner}]{shift})"
