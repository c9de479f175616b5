"""Keeps the values of a tile in the 16-bit format of what the stage loads and stores.

Law: only values that the reference stores in that format too are rounded to it; sums, positions
and what one row or column shares stay in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from nki_agent.builtin.choices import Choices
from nki_agent.builtin.tile_steps import (
    Activate,
    Combine,
    Copy,
    CopyWhere,
    Fill,
    Kind,
    Load,
    Scalar,
    Scale,
    ScaleCombine,
    Step,
    Store,
    Tile,
    step_reads,
    step_writes,
)
from nki_agent.isa.dtype import DType

SHORT = frozenset({DType.BFLOAT16, DType.FLOAT16})
ROUNDED = (Activate, Combine, Copy, CopyWhere, Fill, Scale, ScaleCombine)
"""Steps whose results may be rounded."""


def shorten(levels: Sequence[Sequence[Step]], choices: Choices) -> list[list[Step]]:
    """The same steps on tiles of 16 bits, where all that they load and store has these.

    As they are where the choices say so; or results of functions, and their squares, alone.
    """
    if not choices.short_tiles:
        return [list(level) for level in levels]
    steps = [step for level in levels for step in level]
    moved = {t.dtype for s in steps if isinstance(s, Load) for t in step_writes(s) if t.is_wide}
    moved |= {t.dtype for s in steps if isinstance(s, Store) for t in step_reads(s) if t.is_wide}
    if len(moved) != 1 or not moved <= SHORT:
        return [list(level) for level in levels]
    (short,) = moved
    made = {t for s in steps if isinstance(s, ROUNDED) for t in step_writes(s)}
    made -= {t for s in steps if not isinstance(s, ROUNDED) for t in step_writes(s)}
    made -= set(_functions(steps)) if choices.long_functions else set()
    new = {
        tile: replace(tile, dtype=short)
        for tile in made
        if tile.kind is Kind.FULL and tile.dtype is DType.FLOAT32 and not tile.in_psum
    }
    return [[with_tiles(step, new) for step in level] for level in levels]


def _functions(steps: Sequence[Step]) -> Iterator[Tile]:
    """Results of functions, and what is one of them times itself."""
    for step in steps:
        match step:
            case Activate(function="copy"):
                continue
            case Activate():
                yield step.dst
            case Combine(op="multiply") if step.first == step.second:
                yield step.dst
            case _:
                continue


def with_tiles(step: Step, new: Mapping[Tile, Tile]) -> Step:
    """The same step on other tiles."""
    changes: dict[str, Any] = {}
    for field in fields(step):
        value = getattr(step, field.name)
        if isinstance(value, Tile) and value in new:
            changes[field.name] = new[value]
        elif isinstance(value, tuple) and any(isinstance(v, Scalar) for v in value):
            changes[field.name] = tuple(_scalar_on(v, new) for v in value)
        elif isinstance(value, Scalar):
            changes[field.name] = _scalar_on(value, new)
    return replace(step, **changes) if changes else step


def _scalar_on(scalar: Scalar, new: Mapping[Tile, Tile]) -> Scalar:
    if isinstance(scalar.operand, Tile) and scalar.operand in new:
        return replace(scalar, operand=new[scalar.operand])
    return scalar
