"""The process of an untrusted task: loads the file from text, draws inputs, runs the reference.

Law: it holds the text of one task and the seeds and inputs that it is asked with, nothing of a
kernel, a verdict or another task. All that it answers is checked again by `task_host`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from nki_agent.base.errors import TaskError
from nki_agent.isa.dtype import DType
from nki_agent.sandbox.task_record import record_task
from nki_agent.sandbox.task_wire import (
    ArraysReply,
    DrawRequest,
    FaultReply,
    LoadRequest,
    Request,
    RunRequest,
    WireError,
    pack,
    unpack,
)
from nki_agent.task.family import FamilyScale
from nki_agent.task.handed import HandedFiles
from nki_agent.task.loader import load_task
from nki_agent.task.peaks import draw_trial
from nki_agent.task.reference import Precision
from nki_agent.task.task import ShapeSet, Task
from nki_agent.task.trial import shapes_named

Array = NDArray[Any]
FOLDER: Final = Path("/task")
"""Where a task's text seems to lie; there is no such folder."""

_NUMPY_TASK: Final = """
import numpy as np

def reference(x):
    return np.exp(x).sum(axis=1) @ np.ones((4, 2))

def inputs():
    return {"x": np.random.standard_normal((4, 4, 4)).astype(np.float32)}
"""
_TORCH_TASK: Final = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten())
        self.last = nn.Linear(16, 4)

    def forward(self, x):
        return torch.softmax(self.last(self.part(x)), dim=-1)

def get_inputs():
    return [torch.randn(2, 2, 4, 4)]

def get_init_inputs():
    return []
"""
_DECLARED_TASK: Final = """
import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {"dev": {"B": 2, "S": 5, "D": 8}}
INPUTS = {name: "bfloat16[B, B, S, D]" for name in ("query", "key", "value")}
OUTPUTS = {"y": "bfloat16[B, B, S, D]"}
TOLERANCE = "B2"

class Model(nn.Module):
    def forward(self, query, key, value):
        return F.scaled_dot_product_attention(query, key, value)
"""


def make_guest() -> Callable[[bytes], bytes]:
    """What answers the requests of one task."""
    return TaskGuest().answer


def warm_up() -> None:
    """Load a small task of each kind, so that whatever is imported late is there already."""
    with_torch = "torch" in sys.modules
    for source in (_NUMPY_TASK, *((_TORCH_TASK, _DECLARED_TASK) if with_torch else ())):
        request = LoadRequest(name="warm.py", source=source, modules={}, packages=())
        guest = TaskGuest()
        guest.answer(msgspec.msgpack.encode(request))
        if guest.task is not None:
            inputs = guest.task.dev.sampler.draw(1, FamilyScale())
            for precision in Precision:
                guest.task.dev.reference.run(inputs, precision=precision)


class TaskGuest:
    """One task, once it is loaded."""

    def __init__(self) -> None:
        """Without a task."""
        self.task: Task | None = None

    def answer(self, request: bytes) -> bytes:
        """The coded reply to a coded request."""
        asked: Request = msgspec.msgpack.decode(request, type=Request)
        try:
            reply: msgspec.Struct = self._reply(asked)
        except TaskError as error:
            reply = FaultReply(message=error.message, hint=error.hint)
        except WireError as error:
            reply = FaultReply(message=f"it gives {error}")
        return msgspec.msgpack.encode(reply)

    def _reply(self, asked: Request) -> msgspec.Struct:
        match asked:
            case LoadRequest():
                handed = HandedFiles(
                    source=asked.source,
                    modules=asked.modules,
                    packages=frozenset(asked.packages),
                )
                self.task = load_task(FOLDER / asked.name, handed=handed)
                return record_task(self.task)
            case DrawRequest():
                drawn = draw_trial(self._shapes(asked.shapes), asked.seed, asked.scale)
                return ArraysReply(outputs={name: pack(array) for name, array in drawn.items()})
            case RunRequest():
                return self._run(asked, self._shapes(asked.shapes))

    def _shapes(self, name: str) -> ShapeSet:
        if self.task is None:
            raise TaskError("no task is loaded")
        return shapes_named(self.task, name)

    def _run(self, asked: RunRequest, shapes: ShapeSet) -> ArraysReply:
        inputs = {
            tensor.name: unpack(packed, shape=tensor.shape, dtypes=stored_dtypes(tensor.dtype))
            for tensor in shapes.tensors
            if (packed := asked.inputs.get(tensor.name)) is not None
        }
        results = shapes.reference.run(inputs, precision=asked.precision)
        outputs = {o.name: o.dtype for o in shapes.outputs}
        updated = {a.name: a.dtype for a in shapes.updates}
        return ArraysReply(
            outputs=_pack_all(results.outputs, outputs, asked.precision),
            inputs=_pack_all(results.inputs, updated, asked.precision),
        )


def stored_dtypes(dtype: DType) -> tuple[np.dtype[Any], ...]:
    """The NumPy formats that a stored tensor may have."""
    return (np.dtype(np.bool_), dtype.numpy_dtype) if dtype is DType.BOOL else (dtype.numpy_dtype,)


def result_dtypes(dtype: DType, precision: Precision) -> tuple[np.dtype[Any], ...]:
    """The NumPy formats that a result may have: reals are as wide as the run."""
    if not dtype.is_float:
        return stored_dtypes(dtype)
    match precision:
        case Precision.OWN:
            return (dtype.numpy_dtype,)
        case Precision.SINGLE:
            return (np.dtype(np.float32), dtype.numpy_dtype)
        case Precision.DOUBLE:
            return (np.dtype(np.float64),)


def _pack_all(
    arrays: Mapping[str, Array], dtypes: Mapping[str, DType], precision: Precision
) -> dict[str, Any]:
    """The results in the form that they are compared in; a number becomes one element."""
    packed = {}
    for name, dtype in dtypes.items():
        array, allowed = np.asarray(arrays[name]), result_dtypes(dtype, precision)
        array = array.reshape(1) if array.ndim == 0 else array
        packed[name] = pack(array if array.dtype in allowed else array.astype(allowed[-1]))
    return packed
