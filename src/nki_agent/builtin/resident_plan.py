"""Loops over time whose state stays in SBUF, as data.

Law: where steps multiply the state by weights, features lie on the partitions, in blocks of equal
height, and sequences along the columns, so that what one step leaves is what the next multiplies;
a `part` is as many columns of a tensor as there are features: the gates of a cell lie side by side
in memory. Where no row of the state reads another, rows lie on the partitions as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from nki_agent.builtin.tile_steps import Access, Size, Step, Tile
from nki_agent.isa.dtype import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInput:
    """What each step reads from HBM: neighbouring parts, the first at the access's offset."""

    access: Access
    """Over steps, sequences, and features."""
    parts: tuple[Tile, ...]
    dtype: DType
    added: tuple[tuple[int, Tile], ...] = ()
    """Columns that are added to some of the parts, by their numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepColumn:
    """A number for each feature that all steps share."""

    tile: Tile
    access: Access
    """Over features."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProduct:
    """x @ w, of which each part of w's columns gives a tile; made before the steps of `level`."""

    x: Tile
    w: Access
    """Over features of x, and columns."""
    columns: Size
    dtype: DType
    parts: tuple[tuple[int, Tile], ...]
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What each step makes for others; `access` is None where only the next step reads it."""

    tile: Tile
    access: Access | None
    """Over steps, sequences, and features."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepState:
    """What a step finds, and the result that it is for the next."""

    before: Tile
    after: Tile
    initial: Access
    """Over sequences and features."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentPlan:
    """All steps of a loop over time.

    `levels` holds what is made before the loop, then the steps in front of the first products,
    behind them, and so on.
    """

    title: str
    steps: Size
    sequences: Size
    features: Size
    inputs: tuple[StepInput, ...]
    columns: tuple[StepColumn, ...]
    products: tuple[StepProduct, ...]
    results: tuple[StepResult, ...]
    states: tuple[StepState, ...]
    levels: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOperand:
    """What the steps read from HBM or write there, tile by tile.

    The access is over steps, outer loops, blocks of rows, rows, and columns.
    """

    tile: Tile
    access: Access
    is_moving: bool = True
    """Whether each step has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowState:
    """What a step finds and what it leaves for the next; `initial` has no step."""

    before: Tile
    after: Tile
    initial: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentRowsPlan:
    """All steps of a loop over time in which each row of the state goes its own way.

    `outer` are loops around the one over time. `blocks` of `rows` rows each share a tile.
    """

    title: str
    steps: Size
    outer: tuple[Size, ...]
    blocks: Size
    rows: Size
    cols: Size
    inputs: tuple[RowOperand, ...]
    results: tuple[RowOperand, ...]
    states: tuple[RowState, ...]
    before: tuple[Step, ...]
    step: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaRulePlan:
    """All steps of a loop that corrects a state of `rows` times `cols` a head by the delta rule.

    Accesses are over steps, outer loops, heads, and the rows or columns of the state; decay and
    share, which may be missing, have one number a head.
    """

    title: str
    steps: Size
    outer: tuple[Size, ...]
    heads: Size
    rows: Size
    cols: Size
    key: Access
    query: Access
    value: Access
    decay: Access | None
    share: Access | None
    out: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayedSumPlan:
    """What all steps read of a state of `keys` times `values` a head that decays along its keys.

    Accesses are over outer loops, heads, keys or values, and steps. `bonus`, which has no steps,
    is what a step's own part is read with beside the state that it finds; without one, each step
    reads the state that it leaves.
    """

    title: str
    outer: tuple[Size, ...]
    heads: Size
    keys: Size
    values: Size
    steps: Size
    key: Access
    read: Access
    decay: Access
    value: Access
    bonus: Access | None
    out: Access


Resident = ResidentPlan | ResidentRowsPlan | DeltaRulePlan | DecayedSumPlan


def accesses_read(plan: Resident) -> list[Access]:
    """What such a stage reads from HBM, in order of first use."""
    if isinstance(plan, DecayedSumPlan):
        operands = [plan.key, plan.read, plan.decay, plan.value]
        return [*operands, *(() if plan.bonus is None else (plan.bonus,))]
    if isinstance(plan, DeltaRulePlan):
        sides = (plan.key, plan.query, plan.value, plan.share, plan.decay)
        return [access for access in sides if access is not None]
    if isinstance(plan, ResidentRowsPlan):
        operands = [operand.access for operand in plan.inputs]
        return [*operands, *(state.initial for state in plan.states)]
    return [
        *(group.access for group in plan.inputs),
        *(product.w for product in plan.products),
        *(column.access for column in plan.columns),
        *(state.initial for state in plan.states),
    ]
