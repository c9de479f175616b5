"""Every task of the benchmark equals its line in the table.

Law: the same sizes, tensors, recipes, tolerance, FLOPs and bytes, and the same values in float64.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

import nki_agent.bench
from nki_agent.isa.dtype import DType
from nki_agent.task.loader import load_task
from nki_agent.task.sampler import UserSampler
from nki_agent.task.task import ShapeSet, Task
from nki_agent.task.tensors import to_tensor
from nki_agent.task.trial import Trial, expected, make_trials
from nki_agent.task.userfile import read_user_file
from tests.bench.table import Row, read_rows

TASKS = Path(nki_agent.bench.__file__).parent / "tasks"
ROWS = [row for row in read_rows() if (TASKS / f"{row.task_id}.py").exists()]
SAME = 1e-9
"""Relative L2 difference of two float64 runs of the same formula."""


@functools.cache
def load(task_id: str) -> Task:
    return load_task(TASKS / f"{task_id}.py")


@pytest.fixture(params=ROWS, ids=lambda row: row.task_id)
def row(request: pytest.FixtureRequest) -> Row:
    found: Row = request.param
    return found


def test_sizes_and_tensors_are_those_of_the_table(row: Row) -> None:
    task = load(row.task_id)
    for shapes, sizes in ((task.dev, row.sizes["dev"]), (task.perf, row.sizes["perf"])):
        given = {_name(row, a.original): (a.shape, a.dtype) for a in shapes.tensors}
        assert given == {t.name: (t.shape_at(sizes), t.dtype) for t in row.inputs}
        assert [(_name(row, o.name), o.shape, o.dtype) for o in shapes.outputs] == [
            (t.name, t.shape_at(sizes), t.dtype) for t in row.outputs
        ]
    assert task.tolerance == row.cells["tolerance"]
    assert task.id == row.task_id


def test_recipes_are_those_of_the_table(row: Row) -> None:
    sampler = load(row.task_id).dev.sampler
    assert isinstance(sampler, UserSampler)
    sources = sampler.sources
    names = {a.name: _name(row, a.original) for a in load(row.task_id).tensors}
    found = {names[s.name]: s.recipe and s.recipe.name for s in sources}
    assert found == {t.name: t.recipe for t in row.inputs}


def test_work_is_that_of_the_table(row: Row) -> None:
    work = load(row.task_id).work
    assert work.matmul_flops == int(row.cells["mm_flops"])
    assert work.min_hbm_bytes == int(row.cells["min_hbm_bytes"])


def test_values_are_those_of_the_semantics(row: Row) -> None:
    task = load(row.task_id)
    for trial in make_trials(task, 7)[2:]:
        _require_same_values(row, task, trial, row.sizes["dev"])


def test_values_at_odd_sizes_are_those_of_the_semantics(row: Row) -> None:
    task = load(row.task_id)
    if task.odd is not None:
        trial = make_trials(task, 7, shapes="odd")[0]
        _require_same_values(row, task, trial, _odd_sizes(row, task.odd))


def _odd_sizes(row: Row, odd: ShapeSet) -> dict[str, int]:
    """The file's sizes under the table's names, as far as shapes show those."""
    sizes: dict[str, int] = dict(read_user_file(TASKS / f"{row.task_id}.py").module.SHAPES["odd"])
    shapes = {_name(row, a.original): a.shape for a in odd.tensors}
    shapes |= {_name(row, o.name): o.shape for o in odd.outputs}
    for tensor in (*row.inputs, *row.outputs):
        found = zip(tensor.shape, shapes[tensor.name], strict=True)
        sizes |= {name: size for name, size in found if name.isidentifier()}
    return sizes


def _require_same_values(row: Row, task: Task, trial: Trial, sizes: Mapping[str, int]) -> None:
    names = {a.name: _name(row, a.original) for a in task.tensors}
    inputs = trial.inputs(task)
    wide = {
        names[name]: to_tensor(array.astype(np.float64 if _is_real(task, name) else np.int64))
        for name, array in inputs.items()
    }
    with torch.no_grad():
        wanted = row.run(wide, sizes)
    for name, found in expected(task, inputs, shapes=trial.shapes).items():
        right = wanted[_name(row, name)].to(torch.float64).numpy()
        error = np.linalg.norm(found.astype(np.float64) - right)
        size = float(np.linalg.norm(right))
        assert float(error) <= SAME * max(size, 1e-30), (name, trial.family)


def _name(row: Row, name: str) -> str:
    return row.names.get(name, name)


def _is_real(task: Task, name: str) -> bool:
    return next(a.dtype for a in task.tensors if a.name == name).is_float


def test_dtypes_of_the_table_are_known() -> None:
    assert {t.dtype for row in read_rows() for t in row.inputs} <= set(DType)
