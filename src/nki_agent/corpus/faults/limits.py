"""Faults of tile limits: too many partitions, columns past a bank, rows on the wrong axis."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nki_agent.corpus.faults.fault import Fault, FaultFamily, Place
from nki_agent.corpus.faults.kernel_text import KernelText, dotted, find_keyword

FACTORS = (2, 4)
PAIR = 2


def _too_many_partitions(kernel: KernelText) -> Iterator[Place]:
    yield from _raise_constant(kernel, "PARTITIONS", "a tile can't have {} partitions")


def _bank_too_wide(kernel: KernelText) -> Iterator[Place]:
    yield from _raise_constant(kernel, "BANK", "{} float32 columns don't fit one PSUM bank")


def _raise_constant(kernel: KernelText, name: str, cause: str) -> Iterator[Place]:
    for node in kernel.find(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Name(id=known)], value=ast.Constant(value=int(value))) if (
                known == name
            ):
                for factor in FACTORS:
                    text = str(factor * value)
                    change = kernel.replace(node.value, text)
                    yield Place(changes=(change,), cause=cause.format(text))
            case _:
                pass


def _rows_not_tiled(kernel: KernelText) -> Iterator[Place]:
    """A loop over tiles of rows takes all of them at once."""
    for call in kernel.calls("range"):
        match call.args:
            case [ast.Constant(value=0), ast.Name(id=size), ast.Name(id="PARTITIONS") as step]:
                loop = kernel.statement(call)
                clips = [
                    clip.args[0]
                    for clip in kernel.calls("min")
                    if len(clip.args) == PAIR
                    and dotted(clip.args[0]) == "PARTITIONS"
                    and isinstance(loop, ast.For)
                    and any(clip is inner for inner in ast.walk(loop))
                ]
                if clips:
                    places = (step, clips[0])
                    cause = f"one tile takes all `{size}` rows, more than a tile has partitions"
                    changes = tuple(kernel.replace(place, size) for place in places)
                    yield Place(changes=changes, cause=cause)
            case _:
                pass


def _columns_not_tiled(kernel: KernelText) -> Iterator[Place]:
    """A loop over banks takes all columns at once."""
    for call in kernel.calls("range"):
        match call.args:
            case [ast.Constant(value=0), ast.Name(id=size), ast.Name(id="BANK") as step]:
                loop = kernel.statement(call)
                clips = [
                    clip.args[0]
                    for clip in kernel.calls("min")
                    if clip.args
                    and dotted(clip.args[0]) == "BANK"
                    and any(clip is inner for inner in ast.walk(loop))
                ]
                if clips:
                    cause = f"one product takes all `{size}` columns, more than a PSUM bank holds"
                    changes = tuple(kernel.replace(place, size) for place in (step, clips[0]))
                    yield Place(changes=changes, cause=cause)
            case _:
                pass


def _partition_axis_second(kernel: KernelText) -> Iterator[Place]:
    """A tile with a leading axis of one, so that its rows lie along the free axis."""
    for call in kernel.calls("nl.ndarray"):
        buffer = find_keyword(call, "buffer")
        shape = call.args[0] if call.args else None
        if (
            buffer is not None
            and dotted(buffer.value) in {"nl.sbuf", "nl.psum"}
            and isinstance(shape, ast.Tuple)
            and len(shape.elts) == PAIR
        ):
            rows, cols = map(kernel.text, shape.elts)
            text = f"(1, {rows}, {cols})"
            cause = f"the partition axis comes first, so `{text}` lies on one partition"
            yield Place(changes=(kernel.replace(shape, text),), cause=cause)


FAULTS = tuple(
    Fault(name=name, family=FaultFamily.LIMITS, find=find)
    for name, find in {
        "too-many-partitions": _too_many_partitions,
        "bank-too-wide": _bank_too_wide,
        "rows-not-tiled": _rows_not_tiled,
        "columns-not-tiled": _columns_not_tiled,
        "partition-axis-second": _partition_axis_second,
    }.items()
)
