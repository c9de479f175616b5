"""Loads task files that nobody has read: each runs in a locked process of its own.

Law: the file and the modules beside it go there as text and can reach nothing else; the `Task` that
comes of it judges kernels like any other, its reference and its sampler ask that process. What the
process does wrong, its end included, is a TaskError that names the file. Loading is deterministic,
so a process that was lost is replaced and must load the same task again.
"""

from __future__ import annotations

import math
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import MachineError, TaskError
from nki_agent.sandbox.host import Guest, GuestError, GuestHost, GuestLostError
from nki_agent.sandbox.outcome import GIB, MIB, Limits
from nki_agent.sandbox.task_guest import result_dtypes, stored_dtypes
from nki_agent.sandbox.task_record import (
    NOTES_MAX,
    ShapesRecord,
    TaskRecord,
    TensorRecord,
    make_shapes,
    require_sound,
)
from nki_agent.sandbox.task_wire import (
    ArraysReply,
    DrawRequest,
    FaultReply,
    LoadRequest,
    PackedArray,
    Request,
    RunRequest,
    WireError,
    pack,
    unpack,
)
from nki_agent.sandbox.warm import LostError
from nki_agent.task.family import FamilyScale
from nki_agent.task.handed import HandedFiles, gather_files
from nki_agent.task.loader import make_id
from nki_agent.task.reference import Precision, Results
from nki_agent.task.task import FORMAT_VERSION, ShapeSet, Task
from nki_agent.task.userfile import hash_task_file, read_source

Array = NDArray[Any]
Answer = TypeVar("Answer")
Reply = TypeVar("Reply", TaskRecord, ArraysReply)

ENTRY: Final = "nki_agent.sandbox.task_guest:make_guest"
WARM_UP: Final = "nki_agent.sandbox.task_guest:warm_up"
PRELOAD: Final = ("numpy", "numpy.random", "numpy.linalg", "ml_dtypes", "msgspec", "math")
TORCH: Final = (
    *("torch", "torch.nn", "torch.nn.functional"),
    *("nki_agent.task.tensors", "nki_agent.task.torch_meta"),
    *("nki_agent.task.torch_module", "nki_agent.task.torch_reference"),
    "torch._dynamo",
)
"""With PyTorch. The last is imported by operations on `meta` when they first run."""
OTHERS: Final = ("numpy.fft", "numpy.ma", "einops")
"""What task files import, where it is installed; no other package is found."""
GUESTS_MAX: Final = 24
"""Processes of tasks at a time; the one that was asked longest ago goes first."""
ATTEMPTS: Final = 2
RECORD_BYTES: Final = 4 * MIB
WIDEST_BYTES: Final = 8
"""Of one element of a result."""
FRAME_BYTES: Final = MIB
"""Beside the elements of a reply: names, shapes, an error's text."""


class TaskLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What the process of an untrusted task may use."""

    load_seconds: float = 120.0
    """Wall time to load it, with the runs of the reference that settle its tolerance."""
    seconds: float = 60.0
    """Wall time of one draw of inputs, or one run of the reference."""
    cpu_seconds: int = 3600
    """CPU time of the process in all."""
    memory_bytes: int = 8 * GIB
    """Growth of the address space over that of the warmed process."""


DEFAULT_LIMITS: Final = TaskLimits()


def load_untrusted_task(
    path: Path, *, host: TaskHost | None = None, limits: TaskLimits = DEFAULT_LIMITS
) -> Task:
    """Load a task file in a locked process; a `host` that is given serves many tasks.

    Raises:
        TaskError: The file cannot be used, or does what it may not.
        MachineError: The process could not be started, or was lost twice.
    """
    source = read_source(path)
    files = gather_files(path, source)
    return TaskProcess(path, files, host=host or TaskHost(), limits=limits).load()


class TaskHost:
    """A warmed process with PyTorch, from which the processes of tasks are forked.

    Args:
        allow_unsandboxed: Load tasks although none of uid, Landlock and seccomp works here.
    """

    def __init__(self, *, allow_unsandboxed: bool = False) -> None:
        """Start it; MachineError when it can't be, or must not be used."""
        self._allow_unsandboxed = allow_unsandboxed
        self._guests: OrderedDict[object, Guest] = OrderedDict()
        self._host = self._start()

    def __enter__(self) -> Self:
        """Itself, ready."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the processes of all its tasks."""
        self.close()

    @property
    def pid(self) -> int:
        """The warmed process, for who watches it."""
        return self._host.pid

    @property
    def guest_pids(self) -> tuple[int, ...]:
        """The processes of tasks that live, the one asked last at the end."""
        return tuple(guest.pid for guest in self._guests.values())

    def close(self) -> None:
        """End the processes of all its tasks; a task that is used later starts another."""
        for guest in self._guests.values():
            guest.close()
        self._guests.clear()
        self._host.close()

    def find(self, owner: object) -> Guest | None:
        """The living guest of a task, if it has one here."""
        guest = self._guests.get(owner)
        if guest is None or not guest.is_open or not self._host.is_ours:
            return None
        self._guests.move_to_end(owner)
        return guest

    def open(self, owner: object, limits: Limits) -> Guest:
        """A new guest for a task; LostError when the warmed process is gone."""
        if not self._host.is_ours or not self._host.is_open:
            self._guests.clear()
            self._host = self._start()
        self.dismiss(owner)
        while len(self._guests) >= GUESTS_MAX:
            self._guests.popitem(last=False)[1].close()
        self._guests[owner] = guest = self._host.open(limits)
        return guest

    def dismiss(self, owner: object) -> None:
        """End the guest of a task, if it has one."""
        guest = self._guests.pop(owner, None)
        if guest is not None:
            guest.close()

    def _start(self) -> GuestHost:
        return GuestHost(
            ENTRY,
            warm_up=WARM_UP,
            preload=list_preload(),
            allow_unsandboxed=self._allow_unsandboxed,
        )


def list_preload() -> tuple[str, ...]:
    """Modules that task files of any form need, as far as they are installed."""
    others = [name for name in OTHERS if find_spec(name)]
    return (*PRELOAD, *(TORCH if find_spec("torch") else ()), *others)


class TaskProcess:
    """One untrusted task and the process that answers for it, replaced when it is lost."""

    def __init__(
        self, path: Path, files: HandedFiles, *, host: TaskHost, limits: TaskLimits
    ) -> None:
        """Nothing is started yet."""
        self._path = path
        self._files = files
        self._host = host
        self._limits = limits
        self._record = b""
        self._owner = object()
        weakref.finalize(self, host.dismiss, self._owner)

    def load(self) -> Task:
        """The task, its record checked."""
        self._retry(self._guest)
        record = self._decode(self._record, TaskRecord)
        try:
            require_sound(record)
        except WireError as error:
            raise self._fault(f"it gives {error}") from error
        path, files = self._path.resolve(), self._files
        dev = self._make_shapes(record.dev)
        return Task(
            id=make_id(path),
            source=files.source,
            path=path,
            hash=hash_task_file(files.source, files.modules, format_version=FORMAT_VERSION),
            form=record.form,
            entry=record.entry,
            tolerance=record.tolerance,
            dev=dev,
            perf=dev if record.perf is None else self._make_shapes(record.perf),
            odd=None if record.odd is None else self._make_shapes(record.odd),
            notes=tuple(map(clean, record.notes[:NOTES_MAX])),
        )

    def ask(self, request: Request, *, num_elems: int) -> ArraysReply:
        """Arrays of so many elements at most; TaskError where the process gives none."""
        coded = msgspec.msgpack.encode(request)
        reply_bytes = num_elems * WIDEST_BYTES + FRAME_BYTES
        answer = self._retry(
            lambda: self._guest().ask(coded, seconds=self._limits.seconds, reply_bytes=reply_bytes)
        )
        return self._decode(answer, ArraysReply)

    def unpack_all(
        self,
        packed: Mapping[str, PackedArray],
        wanted: Iterable[tuple[str, tuple[int, ...], Collection[np.dtype[Any]]]],
    ) -> dict[str, Array]:
        """The arrays of a reply by name, in the order of those that are wanted."""
        arrays = {}
        for name, shape, dtypes in wanted:
            if name not in packed:
                raise self._fault(f"it gives no `{name}`")
            try:
                arrays[name] = unpack(packed[name], shape=shape, dtypes=dtypes)
            except WireError as error:
                raise self._fault(f"for `{name}` it gives {error}") from error
        return arrays

    def _make_shapes(self, record: ShapesRecord) -> ShapeSet:
        return make_shapes(
            record,
            reference=UntrustedReference(process=self, described=record),
            sampler=UntrustedSampler(process=self, record=record),
        )

    def _guest(self) -> Guest:
        """The process with the task loaded; the first one settles what the task is."""
        guest = self._host.find(self._owner)
        if guest is not None:
            return guest
        limits = Limits(
            cpu_seconds=self._limits.cpu_seconds, memory_bytes=self._limits.memory_bytes
        )
        guest = self._host.open(self._owner, limits)
        request = LoadRequest(
            name=self._path.name,
            source=self._files.source,
            modules=dict(self._files.modules),
            packages=tuple(self._files.packages),
        )
        record = guest.ask(
            msgspec.msgpack.encode(request),
            seconds=self._limits.load_seconds,
            reply_bytes=RECORD_BYTES,
        )
        if self._record not in (b"", record):
            raise self._fault("it says something else when it is loaded again")
        self._record = record
        return guest

    def _retry(self, step: Callable[[], Answer]) -> Answer:
        """Do it, once more where a process was lost; what the task did wrong is a TaskError."""
        error: Exception | None = None
        for _ in range(ATTEMPTS):
            try:
                return step()
            except LostError as lost:
                error = lost
                self._host.close()
            except GuestLostError as lost:
                error = lost
                self._host.dismiss(self._owner)
            except GuestError as fault:
                raise self._fault(str(fault)) from fault
        if isinstance(error, GuestLostError):
            raise self._fault(str(error)) from error
        raise MachineError(
            f"the process of untrusted tasks was lost {ATTEMPTS} times in one call: "
            "this machine may be short of memory"
        ) from error

    def _decode(self, answer: bytes, kind: type[Reply]) -> Reply:
        try:
            reply = msgspec.msgpack.decode(answer, type=kind | FaultReply)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._fault(f"it gives what is no answer: {error}") from error
        if isinstance(reply, FaultReply):
            raise TaskError(clean(reply.message), hint=clean(reply.hint))
        return reply

    def _fault(self, what: str) -> TaskError:
        return TaskError(
            f"{clean(self._path.name)}: in its own process, {clean(what)}",
            hint="an untrusted task only computes: no files, network, processes, or long runs",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UntrustedReference:
    """Asks the task's process for a run of the reference."""

    process: TaskProcess
    described: ShapesRecord

    def run(self, inputs: Mapping[str, Array], *, precision: Precision) -> Results:
        """Run on the tensor arguments by name; TaskError where the process gives no results."""
        outputs = [
            (o.name, o.shape, result_dtypes(o.dtype, precision)) for o in self.described.outputs
        ]
        updated = [
            (a.name, a.shape, result_dtypes(a.dtype, precision))
            for a in self.described.arguments
            if isinstance(a, TensorRecord) and a.is_updated
        ]
        reply = self.process.ask(
            RunRequest(
                shapes=self.described.name,
                precision=precision,
                inputs={name: pack(array) for name, array in inputs.items()},
            ),
            num_elems=sum(math.prod(shape) for _, shape, _ in (*outputs, *updated)),
        )
        return Results(
            outputs=self.process.unpack_all(reply.outputs, outputs),
            inputs=self.process.unpack_all(reply.inputs, updated),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UntrustedSampler:
    """Asks the task's process for the inputs of a trial."""

    process: TaskProcess
    record: ShapesRecord

    def draw(self, seed: int, scale: FamilyScale) -> dict[str, Array]:
        """Arrays by name, in the order of the arguments."""
        tensors = [
            (a.name, a.shape, stored_dtypes(a.dtype))
            for a in self.record.arguments
            if isinstance(a, TensorRecord)
        ]
        reply = self.process.ask(
            DrawRequest(
                shapes=self.record.name,
                seed=seed,
                scale=scale,
            ),
            num_elems=sum(math.prod(shape) for _, shape, _ in tensors),
        )
        return self.process.unpack_all(reply.outputs, tensors)
