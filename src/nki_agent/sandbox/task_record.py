"""A task as data: what its own process says of it, and the checks before any of it is believed.

Law: a task's word counts for itself alone. Its id, source and hash are never taken from it, names
are identifiers, sizes are bounded, numbers are finite, and notes are text without control
characters. What it says of its tolerance and its work only makes a worse task.
"""

from __future__ import annotations

import math
import re
from dataclasses import astuple
from typing import Final

import msgspec

from nki_agent.base.diagnostic import clean
from nki_agent.isa.dtype import DType
from nki_agent.sandbox.task_wire import WireError
from nki_agent.task.family import Family, FamilyScale
from nki_agent.task.reference import Reference
from nki_agent.task.task import (
    Argument,
    Form,
    Output,
    Sampler,
    ShapeSet,
    StaticArgument,
    StaticValue,
    Task,
    TensorArgument,
    TensorKind,
    Work,
)
from nki_agent.task.tolerance import ToleranceClass

ELEMS_MAX: Final = 1 << 28
"""Elements of one tensor: 2 GiB in float64, and a MessagePack value ends at 4 GiB."""
ARGUMENTS_MAX: Final = 10_000
RANK_MAX: Final = 32
NAME_MAX: Final = 200
NOTES_MAX: Final = 100
COUNT_MAX: Final = 1 << 62
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


class TensorRecord(msgspec.Struct, frozen=True, tag="tensor"):
    """A tensor argument."""

    name: str
    original: str
    kind: TensorKind
    shape: tuple[int, ...]
    dtype: DType
    is_updated: bool


class StaticRecord(msgspec.Struct, frozen=True, tag="static"):
    """A static argument."""

    name: str
    value: StaticValue


class OutputRecord(msgspec.Struct, frozen=True):
    """An output."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    is_constant: bool


class ShapesRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One shape set."""

    name: str
    arguments: tuple[TensorRecord | StaticRecord, ...]
    outputs: tuple[OutputRecord, ...]
    scales: dict[Family, FamilyScale]
    min_hbm_bytes: int
    matmul_flops: dict[DType, int]
    elementwise_elems: int
    reduction_depth: int


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True, tag="task"):
    """What a task's process says of it."""

    form: Form
    entry: str
    tolerance: ToleranceClass
    dev: ShapesRecord
    perf: ShapesRecord | None
    """None where it is the same as `dev`."""
    odd: ShapesRecord | None
    notes: tuple[str, ...]

    @property
    def shape_sets(self) -> tuple[ShapesRecord, ...]:
        """Every different one."""
        return tuple(s for s in (self.dev, self.odd, self.perf) if s is not None)


def record_task(task: Task) -> TaskRecord:
    """The record of a task; in the task's own process."""
    return TaskRecord(
        form=task.form,
        entry=task.entry,
        tolerance=task.tolerance,
        dev=_record_shapes(task.dev),
        perf=None if task.perf is task.dev else _record_shapes(task.perf),
        odd=None if task.odd is None else _record_shapes(task.odd),
        notes=task.notes[:NOTES_MAX],
    )


def require_sound(record: TaskRecord) -> None:
    """Raise WireError where a record is no task that could be judged."""
    _require(_is_name(record.entry), "the name of its reference")
    names = [shapes.name for shapes in record.shape_sets]
    _require(len(set(names)) == len(names), "two shape sets of one name")
    for shapes in record.shape_sets:
        _require_sound_shapes(shapes)


def make_shapes(record: ShapesRecord, *, reference: Reference, sampler: Sampler) -> ShapeSet:
    """The shape set of a record that is sound."""
    return ShapeSet(
        name=record.name,
        arguments=tuple(map(_make_argument, record.arguments)),
        outputs=tuple(
            Output(name=o.name, shape=o.shape, dtype=o.dtype, is_constant=o.is_constant)
            for o in record.outputs
        ),
        work=Work(
            min_hbm_bytes=record.min_hbm_bytes,
            matmul_flops_by_dtype=record.matmul_flops,
            elementwise_elems=record.elementwise_elems,
            reduction_depth=record.reduction_depth,
        ),
        scales=record.scales,
        reference=reference,
        sampler=sampler,
    )


def _record_shapes(shapes: ShapeSet) -> ShapesRecord:
    return ShapesRecord(
        name=shapes.name,
        arguments=tuple(map(_record_argument, shapes.arguments)),
        outputs=tuple(
            OutputRecord(o.name, o.shape, o.dtype, o.is_constant) for o in shapes.outputs
        ),
        scales=dict(shapes.scales),
        min_hbm_bytes=shapes.work.min_hbm_bytes,
        matmul_flops=dict(shapes.work.matmul_flops_by_dtype),
        elementwise_elems=shapes.work.elementwise_elems,
        reduction_depth=shapes.work.reduction_depth,
    )


def _record_argument(argument: Argument) -> TensorRecord | StaticRecord:
    if isinstance(argument, StaticArgument):
        return StaticRecord(argument.name, argument.value)
    a = argument
    return TensorRecord(a.name, a.original, a.kind, a.shape, a.dtype, a.is_updated)


def _make_argument(record: TensorRecord | StaticRecord) -> Argument:
    if isinstance(record, StaticRecord):
        return StaticArgument(name=record.name, value=record.value)
    return TensorArgument(
        name=record.name,
        original=clean(record.original),
        kind=record.kind,
        shape=record.shape,
        dtype=record.dtype,
        is_updated=record.is_updated,
    )


def _require_sound_shapes(shapes: ShapesRecord) -> None:
    _require(_is_name(shapes.name), "the name of a shape set")
    _require(len(shapes.arguments) + len(shapes.outputs) <= ARGUMENTS_MAX, "too many tensors")
    _require(bool(shapes.outputs), "no output")
    arguments = [a.name for a in shapes.arguments]
    _require(all(map(str.isidentifier, arguments)), "an argument that is no identifier")
    # Outputs and updated inputs are compared side by side, by name.
    updated = [a.name for a in shapes.arguments if isinstance(a, TensorRecord) and a.is_updated]
    results = [*(o.name for o in shapes.outputs), *updated]
    _require(all(map(_is_name, [*arguments, *results])), "a name that is none")
    for names in (arguments, results):
        _require(len(set(names)) == len(names), "two tensors of one name")
    for tensor in (*shapes.arguments, *shapes.outputs):
        if not isinstance(tensor, StaticRecord):
            _require(_is_shape(tensor.shape), f"the shape of `{tensor.name}`")
            _require(not tensor.dtype.is_packed, f"the dtype of `{tensor.name}`")
        elif isinstance(tensor.value, float):
            _require(not math.isnan(tensor.value), f"the value of `{tensor.name}`")
    counts = (
        *(shapes.min_hbm_bytes, shapes.elementwise_elems, shapes.reduction_depth),
        *shapes.matmul_flops.values(),
    )
    _require(all(0 <= count <= COUNT_MAX for count in counts), "its work")
    for scale in shapes.scales.values():
        _require(
            all(map(math.isfinite, astuple(scale))) and scale.slack >= 1.0, "the scale of a family"
        )


def _is_name(name: str) -> bool:
    return len(name) <= NAME_MAX and _NAME.fullmatch(name) is not None


def _is_shape(shape: tuple[int, ...]) -> bool:
    is_counted = 1 <= len(shape) <= RANK_MAX and all(1 <= size <= ELEMS_MAX for size in shape)
    return is_counted and math.prod(shape) <= ELEMS_MAX


def _require(holds: object, what: str) -> None:
    if not holds:
        raise WireError(f"a record with {clean(what)} out of bounds")
