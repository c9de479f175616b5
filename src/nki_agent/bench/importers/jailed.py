"""The end of an importer that lies in the locked process: foreign code runs here and only here.

Law: it is given texts and gives back small records; it opens no file and keeps nothing.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np

from nki_agent.base.errors import TaskError
from nki_agent.bench.importers.messages import (
    Answer,
    Collect,
    Collected,
    Found,
    Measure,
    Measured,
    Prove,
    Proved,
    Question,
    Refused,
    TooLarge,
)
from nki_agent.task.arguments import make_numpy_parts
from nki_agent.task.declaration import DEV
from nki_agent.task.declared import make_shapes
from nki_agent.task.form import FileForm, find_form
from nki_agent.task.handed import HandedFiles
from nki_agent.task.lint import lint_task
from nki_agent.task.loader import load_task
from nki_agent.task.loading import Loading
from nki_agent.task.sampler import index_values
from nki_agent.task.task import TensorKind
from nki_agent.task.userfile import read_user_file
from nki_agent.task.values import is_tensor

NO_MEMORY = ("can't allocate memory", "not enough memory", "MemoryError", "Unable to allocate")
"""How PyTorch and NumPy say that there is too little of it."""
FOLDER = Path("/suite")
"""Where a task file seems to lie; there is no such folder."""
SEED = 0
TASKS_MAX = 10_000


def answer(payload: bytes) -> bytes:
    """Answer one coded question with one coded answer."""
    question: Question = msgspec.msgpack.decode(payload, type=Question)
    try:
        found = _answer(question)
    except (TaskError, RecursionError) as error:
        text = str(error) or type(error).__name__
        is_memory = any(words in text for words in NO_MEMORY)
        found = TooLarge(reason=text) if is_memory else Refused(reason=text)
    return msgspec.msgpack.encode(found)


def _answer(question: Question) -> Answer:
    match question:
        case Measure():
            return measure(question)
        case Prove():
            return prove(question)
        case Collect():
            return collect(question)


def prove(question: Prove) -> Proved:
    """Load the task as the judge would, then lint it."""
    task = load_task(FOLDER / question.name, handed=_handed(question.source))
    findings = tuple(str(finding) for finding in lint_task(task))
    weights = [t for t in task.tensors if t.kind is not TensorKind.INPUT]
    return Proved(num_weights=len(weights), notes=task.notes, findings=findings)


def measure(question: Measure) -> Measured:
    """Call the reference once, on shapes or on values."""
    form = find_form(read_user_file(FOLDER / question.name, handed=_handed(question.source)))
    if form.declared is not None:
        shapes, _ = make_shapes(form, form.declared.sizes, name=DEV, seed=SEED)
        num_elems = [t.num_elems for t in shapes.tensors] + [o.num_elems for o in shapes.outputs]
        return Measured(
            elems=sum(num_elems),
            work_elems=shapes.work.elementwise_elems,
            flops=shapes.work.matmul_flops,
        )
    if "torch" not in sys.modules:
        return _measure_numpy(form, limit_elems=question.limit_elems)
    from nki_agent.task.torch_size import find_size  # noqa: PLC0415 - PyTorch is optional

    found = find_size(form, device="cpu" if question.has_data else "meta")
    if found is None:
        return _measure_numpy(form, limit_elems=question.limit_elems)
    return Measured(elems=found.elems, work_elems=found.work_elems, flops=found.flops)


def _measure_numpy(form: FileForm, *, limit_elems: int) -> Measured:
    """Arrays have data always: the function runs only if its inputs are few."""
    assert form.inputs is not None
    samples = [index_values(form.inputs(SEED))]
    elems = sum(np.size(value) for value in samples[0].values() if is_tensor(value))
    if elems > limit_elems:
        return Measured(elems=elems, is_whole=False)
    samples.append(index_values(form.inputs(SEED)))
    by_name = any(isinstance(key, str) for key in samples[0])
    loading = Loading(form=form, seed=SEED, is_torch=False, by_name=by_name)
    parts = make_numpy_parts(loading, samples)
    results, record = parts.reference.record({s.name: s.given for s in parts.sources})
    outputs = sum(array.size for array in results.outputs.values())
    return Measured(elems=elems + outputs, flops=sum(record.matmul_flops.values()))


def collect(question: Collect) -> Collected:
    """Run a package of modules and take the tasks that its functions and lists give."""
    package = HandedFiles(
        source="",
        modules=dict(question.modules),
        packages=frozenset({question.package}),
    )
    sys.meta_path.insert(0, package)
    modules = []
    for name in question.wanted:
        try:
            modules.append(importlib.import_module(name))
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise TaskError(f"the module {name} raised {reason}") from error
    found: dict[str, Found] = {}
    for value in _list_values(modules):
        task = _read_found(value)
        if task is not None and len(found) < TASKS_MAX:
            found.setdefault(task.id, task)
    return Collected(tasks=tuple(found.values()))


def _list_values(modules: list[ModuleType]) -> Iterator[object]:
    """What the modules hold, and what those of their functions give that need no argument."""
    for module in modules:
        for name, value in list(vars(module).items()):
            own = getattr(value, "__module__", None) == module.__name__
            if inspect.isfunction(value) and own and name.startswith("get_"):
                yield from _items(_call(value))
            elif isinstance(value, list | tuple | dict):
                yield from _items(value)


def _call(function: Callable[..., object]) -> object:
    needed = [
        p
        for p in inspect.signature(function).parameters.values()
        if p.default is p.empty and p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD}
    ]
    if needed:
        return ()
    try:
        return function()
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise TaskError(f"{function.__name__}() raised {reason}") from error


def _items(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value


def _read_found(value: object) -> Found | None:
    """A record or mapping with the text of a model; None for anything else."""
    fields = value if isinstance(value, Mapping) else getattr(value, "__dict__", None)
    if not isinstance(fields, Mapping) or not isinstance(fields.get("model_class_code"), str):
        return None
    return read_fields(fields)


def read_fields(fields: Mapping[str, Any]) -> Found:
    """A task from the fields that the format names."""

    def text(name: str) -> str:
        value = fields.get(name)
        return value if isinstance(value, str) else ""

    level = fields.get("level")
    return Found(
        id=text("task_id") or text("name"),
        name=text("name"),
        level=level if type(level) is int else 0,
        category=text("category"),
        model=text("model_class_code"),
        inputs=text("get_inputs_code"),
        init_inputs=text("get_init_inputs_code"),
    )


def _handed(source: str) -> HandedFiles:
    return HandedFiles(source=source, modules={})
