"""Loads a task from a Python file: finds the reference, runs it, and settles how it is judged.

A task file is the user's own code and runs in this process. form.py states the rule by which its
parts are found. Loading runs the reference a few times: it must be deterministic and finite, and
must not depend on anything but its arguments.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from nki_agent.base.errors import TaskError, UnfitTaskError
from nki_agent.base.hashes import hash_text
from nki_agent.base.seeds import seed_for
from nki_agent.task.arguments import (
    FIRST,
    SECOND,
    Parts,
    make_numpy_parts,
    make_torch_parts,
)
from nki_agent.task.calibration import CANCELLING, calibrate
from nki_agent.task.choice import choose_tolerance
from nki_agent.task.declaration import DEV, ODD, PERF, Sizes
from nki_agent.task.declared import at_scales_of, make_shapes, require_declared
from nki_agent.task.family import STANDARD_SCALE
from nki_agent.task.firstrun import (
    check_first_run,
    check_repeats,
    check_updates,
    find_unread,
    list_outputs,
    note_record,
)
from nki_agent.task.form import FileForm, find_form
from nki_agent.task.handed import HandedFiles
from nki_agent.task.loading import Loading
from nki_agent.task.record import Record
from nki_agent.task.reference import Results
from nki_agent.task.sampler import UserSampler, index_values
from nki_agent.task.task import (
    FORMAT_VERSION,
    GIVEN,
    ShapeSet,
    Task,
    TensorArgument,
    Work,
)
from nki_agent.task.tolerance import ToleranceClass
from nki_agent.task.trying import Calibration
from nki_agent.task.userfile import read_user_file
from nki_agent.task.values import has_torch_type
from nki_agent.task.work import in_tolerated_formats, make_work

PROBE = "probe"
"""The name of a shape set at sizes that the file does not name."""


def load_task(path: Path, *, name: str | None = None, handed: HandedFiles | None = None) -> Task:
    """Load the task that a Python file states. `name` replaces the id made from the file's name.

    With `handed` the file's text comes from there, and its folder is not looked at.

    Raises:
        TaskError: the file cannot be used; the message says what was found and what to do.
    """
    with _naming(path):
        return _load(path, name, handed)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Say in which file a fault is, where its message does not."""
    try:
        yield
    except UnfitTaskError:
        raise
    except TaskError as error:
        if path.name in error.message:
            raise
        raise TaskError(f"{path.name}: {error.message}", hint=error.hint) from error


def _load(path: Path, name: str | None, handed: HandedFiles | None) -> Task:
    user = read_user_file(path, handed=handed)
    form = find_form(user)
    seed = seed_for(0, hash_text(user.source))
    task_id = name or make_id(path)
    if form.declared is not None:
        return _assemble_declared(form, seed=seed, task_id=task_id)
    assert form.inputs is not None
    samples = [
        index_values(form.inputs(seed_for(seed, "inputs", number))) for number in (FIRST, SECOND)
    ]
    loading = Loading(
        form=form,
        seed=seed,
        is_torch=form.is_module
        or any(has_torch_type(value, "Tensor") for value in samples[FIRST].values()),
        by_name=any(isinstance(key, str) for key in samples[FIRST]),
    )
    make_parts = make_torch_parts if loading.is_torch else make_numpy_parts
    return _assemble(loading, make_parts(loading, samples), task_id=task_id)


def make_id(path: Path) -> str:
    """The id of a user's task: its file's name."""
    return re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-") or "task"


def _assemble(loading: Loading, parts: Parts, *, task_id: str) -> Task:
    form = loading.form
    assert form.inputs is not None
    inputs = {source.name: source.given for source in parts.sources}
    results, record = parts.reference.record(inputs)
    check_repeats(loading, parts.reference, inputs, results)
    sampler = UserSampler(function=form.inputs, sources=parts.sources)
    check_updates(loading, parts, inputs, results, sampler=sampler)
    parts = parts.without(find_unread(record, _tensors(parts)) & parts.unsaved)
    note_record(loading, record, _tensors(parts))
    sampler = replace(sampler, sources=parts.sources)
    shapes = _make_shapes(loading, parts, results, record=record, sampler=sampler)
    settled = _settle(loading, shapes, sampler, record)
    return _make_task(loading, settled, task_id=task_id, perf=settled.shapes, odd=None)


def _assemble_declared(form: FileForm, *, seed: int, task_id: str) -> Task:
    """A task from declarations: the dev shapes are run, the others followed without data."""
    loading = Loading(form=form, seed=seed, is_torch=True, by_name=True)
    found: dict[str, tuple[ShapeSet, Record]] = {}
    for given, sizes in require_declared(form).shapes.items():
        dev = found[DEV][0] if DEV in found else None
        found[given] = make_shapes(form, sizes, name=given, seed=seed, dev=dev)
    shapes, record = found[DEV]
    sampler = shapes.sampler
    assert isinstance(sampler, UserSampler)
    inputs = sampler.draw(seed_for(seed, "first"), STANDARD_SCALE)
    check_first_run(loading, shapes, inputs)
    note_record(loading, record, shapes.tensors)
    settled = _settle(loading, shapes, sampler, record)
    others = {n: at_scales_of(settled.shapes, s) for n, (s, _) in found.items() if n != DEV}
    return _make_task(
        loading,
        settled,
        task_id=task_id,
        perf=others.get(PERF, settled.shapes),
        odd=others.get(ODD),
        resize=partial(_resize, form, seed),
    )


def _resize(form: FileForm, seed: int, sizes: Sizes) -> ShapeSet:
    shapes, _ = make_shapes(form, sizes, name=PROBE, seed=seed)
    return shapes


def _settle(
    loading: Loading, shapes: ShapeSet, sampler: UserSampler, record: Record
) -> Calibration:
    wanted = loading.form.settings.tolerance
    return calibrate(
        Calibration(
            shapes=shapes,
            sampler=replace(sampler, is_distinct=wanted is ToleranceClass.IX),
            tolerance=wanted or choose_tolerance(shapes, record),
            is_fixed=wanted is not None,
            seed=seed_for(loading.seed, "calibration"),
            notes=loading.notes,
            has_matmul=record.has_matmul,
            reduces=record.reduces,
            compares=record.compares,
            orders=record.orders or any(o.dtype.is_integer for o in shapes.results),
            weighs=record.weighs and record.has_matmul,
            picks=record.picks,
            cancels=not CANCELLING.isdisjoint(record.ops),
            unread=find_unread(record, shapes.tensors),
        )
    )


def _make_task(
    loading: Loading,
    settled: Calibration,
    *,
    task_id: str,
    perf: ShapeSet,
    odd: ShapeSet | None,
    resize: Callable[[Sizes], ShapeSet] | None = None,
) -> Task:
    user = loading.user
    dev = in_tolerated_formats(settled.shapes, settled.tolerance)
    return Task(
        id=task_id,
        source=user.source,
        path=user.path,
        hash=user.hash(format_version=FORMAT_VERSION),
        form=loading.kind,
        entry=loading.form.name,
        tolerance=settled.tolerance,
        dev=dev,
        perf=dev if perf is settled.shapes else in_tolerated_formats(perf, settled.tolerance),
        odd=odd and in_tolerated_formats(odd, settled.tolerance),
        notes=tuple(dict.fromkeys(settled.notes)),
        resize=resize,
    )


def _make_shapes(
    loading: Loading, parts: Parts, results: Results, *, record: Record, sampler: UserSampler
) -> ShapeSet:
    shapes = ShapeSet(
        name=GIVEN,
        arguments=parts.arguments,
        outputs=list_outputs(loading, results),
        work=Work(min_hbm_bytes=0),
        scales={},
        reference=parts.reference,
        sampler=sampler,
    )
    work = make_work(record, tensors=shapes.tensors, outputs=shapes.outputs)
    return replace(shapes, work=work)


def _tensors(parts: Parts) -> tuple[TensorArgument, ...]:
    return tuple(a for a in parts.arguments if isinstance(a, TensorArgument))
