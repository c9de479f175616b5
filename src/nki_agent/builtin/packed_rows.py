"""Plans passes over short rows, several in each partition.

Law: a step that takes a value of each row either repeats the values along the columns, as a second
operand of all rows, or goes row by row with one value for each partition: many shorter instructions
that each read one operand. The faster way is taken, by estimates; the cost model has the last word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from nki_agent.builtin.align import group_size
from nki_agent.builtin.balance import Estimate, balance
from nki_agent.builtin.choices import Choices
from nki_agent.builtin.graph import UnsupportedError
from nki_agent.builtin.plan import RowsPlan
from nki_agent.builtin.row_bytes import BUFFERS, bytes_of
from nki_agent.builtin.row_space import Space
from nki_agent.builtin.tile_steps import (
    Activate,
    Combine,
    Kind,
    Operand,
    Scalar,
    Scale,
    ScaleCombine,
    Step,
    Tile,
)
from nki_agent.chip.spec import ChipSpec

SHORT_ROW_BYTES = 1024
"""Rows shorter than this are packed: their transfers and tiles would be mostly overhead."""
ROWS_EACH_MIN = 4
APART_SHARE = 0.8
"""Part of the time that going row by row may take: it makes more instructions."""


def choose_packed(
    lower: Callable[..., RowsPlan], space: Space, each: int, chip: ChipSpec
) -> RowsPlan | None:
    """The faster plan of so many rows in each partition; `lower` is told whether they go apart."""
    try:
        plan = lower(is_apart=False)
    except UnsupportedError:
        return None
    if any(_repeats_rows(step) for step in plan.levels[-1]):
        apart = lower(is_apart=True)
        estimate = _estimate(chip, space, each)
        if _busy_ns(apart, estimate) < APART_SHARE * _busy_ns(plan, estimate):
            plan = apart
    fits = bytes_of(plan, buffers=BUFFERS) <= chip.sbuf_usable_partition_bytes
    return plan if fits else None


def takes_rows(step: Step) -> bool:
    """Whether a step on wide tiles takes one value of each row, or makes one on the way."""
    match step:
        case Activate():
            return step.sums is not None or _is_row(step.scale) or _is_row(step.bias)
        case Scale():
            return any(_is_row(scalar.operand) for scalar in step.scalars)
        case ScaleCombine():
            return _is_row(step.scalar.operand)
        case _:
            return False


def spread_apart(
    steps: Sequence[Step],
    chip: ChipSpec,
    space: Space,
    each: int,
    names: Mapping[str, int],
    choices: Choices,
) -> list[Step]:
    """Even queues for the engines, of steps that go row by row where they take values of rows."""
    estimate = replace(_estimate(chip, space, each), shares=choices.sharing)
    spread = balance(steps, estimate, floor_ns=0.0, scratch=names)
    return [_on_columns(step) for step in spread]


@dataclass(frozen=True, slots=True)
class ApartEstimate(Estimate):
    """Times of steps on the rows of a partition, some of which go row by row."""

    each: int = 1

    def step_ns(self, step: Step) -> float:
        """Time of a step on all rows."""
        if not takes_rows(step):
            return Estimate.step_ns(self, step)
        one = Estimate(self.chip, self.cols // self.each, self.num_sets)
        return self.each * one.interval_ns(step)


def _estimate(chip: ChipSpec, space: Space, each: int) -> ApartEstimate:
    cols = max(group_size(space.groups[-1], space.sizes))
    return ApartEstimate(chip, each * cols, len(space.sizes), each=each)


def _busy_ns(plan: RowsPlan, estimate: Estimate) -> float:
    """The time of the engine that has most to do."""
    return max(estimate.loads(plan.levels[-1]).values())


def _repeats_rows(step: Step) -> bool:
    """Whether a step reads values of rows as a second operand of its own width."""
    match step:
        case Combine():
            operands = [step.first, step.second]
        case ScaleCombine():
            operands = [step.data, step.other]
        case _:
            return False
    return step.dst.is_wide and any(_is_row(operand) for operand in operands)


def _is_row(operand: Operand | None) -> bool:
    return isinstance(operand, Tile) and operand.kind is Kind.ROW


def _on_columns(step: Step) -> Step:
    """A step on columns alone in a form that takes the columns of all rows at once."""
    if not isinstance(step, Scale) or step.dst.is_wide or not takes_rows(step):
        return step
    match step.scalars:
        case (Scalar(operand=Tile() as other) as only,):
            pair = (other, step.data) if only.reverse else (step.data, other)
            return Combine(dst=step.dst, first=pair[0], second=pair[1], op=only.op)
        case (Scalar(op="multiply", operand=Tile() as other), Scalar(op="multiply") as second):
            return ScaleCombine(
                dst=step.dst, data=step.data, scalar=second, op="multiply", other=other
            )
        case _:
            return step
