"""The tools of an episode outside of one: every call names the task that its kernel is for.

Law: a call keeps nothing, so clients can't disturb each other; each judgement has a secret seed of
its own. Whatever a client sends is answered with text. Task files are loaded in workers, or in
locked processes where nobody has read them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from nki_agent.agent.ablation import Tool
from nki_agent.agent.judging import FarmJudging, FaultError
from nki_agent.agent.library import find_library
from nki_agent.agent.prompt import write_brief
from nki_agent.agent.tool_specs import TOOL_SPECS
from nki_agent.agent.tools import Shelf, Toolbox
from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import MachineError, NkiAgentError, UsageError
from nki_agent.base.seeds import draw_root_seed
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import DEFAULT_TARGET, Target, find_target
from nki_agent.farm.executor import Executor
from nki_agent.llm.protocol import Json, ToolCall, ToolSpec
from nki_agent.sandbox.task_host import TaskHost, load_untrusted_task
from nki_agent.task.loader import load_task
from nki_agent.task.task import Task
from nki_agent.verify.kernel import read_source

DESCRIBE = "describe_task"
TOOLS = tuple(tool for tool in Tool if tool is not Tool.FIND)
"""All but what reads the kernels of earlier runs; `submit` is for episodes."""
WITHOUT_KERNEL = frozenset({Tool.LOOK_UP, DESCRIBE})
PLACE: Json = {
    "task": {"type": "string", "description": "Path of the task file that the kernel is for."},
    "target": {"type": "string", "enum": list(Target), "description": "The chip."},
}
KERNEL: Json = {
    "source": {"type": "string", "description": "The whole kernel file as text."},
    "file": {"type": "string", "description": "Or the path of the kernel file."},
}


class Place(msgspec.Struct, frozen=True):
    """What a call says beside the tool's own arguments."""

    task: str | None = None
    target: str | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a call gave."""

    text: str
    is_error: bool = False


class Calls(Toolbox):
    """The tools of a call that stands alone: there is nothing to hand in."""

    HAS_SUBMIT = False


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Answers calls of the tools."""

    executor: Executor
    task: Path | None = None
    """The task of calls that name none."""
    target: Target = DEFAULT_TARGET
    surface: Surface = Surface.NKI
    """What kernels may use."""
    is_task_trusted: bool = True
    """Whether task files may run without a sandbox."""
    allow_unsandboxed: bool = False
    """Whether it goes on where nothing can hold an untrusted task."""
    root: Path | None = None
    """The folder that clients may name files of; None is the whole machine."""
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a client sees them."""
        has_task = self.task is not None
        tools = [_widen(TOOL_SPECS[tool], has_task=has_task) for tool in TOOLS]
        describe = ToolSpec(
            name=DESCRIBE,
            description="Read a task: reference, each tensor's rank, shape and dtype, tolerances,"
            " how to lay tensors on the partitions.",
            parameters=_schema(PLACE, required=() if self.task else ("task",)),
        )
        return (describe, *tools)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Said:
        """Do what a client asked for."""
        known = [spec.name for spec in self.specs]
        if name not in known:
            return Said(text=f"There is no tool `{name}`; tools: {', '.join(known)}", is_error=True)
        try:
            return await self._call(name, dict(arguments))
        except msgspec.ValidationError as error:
            return Said(text=f"Arguments of `{name}` don't fit: {error}", is_error=True)
        except MachineError as error:
            return Said(text=f"The machine failed; not the kernel's fault: {error}", is_error=True)
        except NkiAgentError as error:
            return Said(text=f"{error}", is_error=True)
        except FaultError as error:
            last = (str(error).strip().splitlines() or ["no message"])[-1]
            return Said(text=f"A bug of nki-agent, not the kernel's fault: {last}", is_error=True)

    async def _call(self, name: str, given: Json) -> Said:
        place = msgspec.convert(given, Place)
        target = self.target if place.target is None else _find_target(place.target)
        if name == Tool.LOOK_UP:
            given.pop("target", None)
            return await self._use(name, given, task=Path(), target=target)
        path = self.task if place.task is None else self._allow(place.task)
        if path is None:
            raise UsageError("`task` is missing", hint="pass the path of the task file")
        if not await asyncio.to_thread(_is_file, path):
            raise UsageError(
                f"no task file `{clean(path)}`", hint="pass a path that the server can read"
            )
        if name == DESCRIBE:
            return Said(text=await asyncio.to_thread(self._describe, path, target))
        own = {key: value for key, value in given.items() if key not in PLACE}
        if place.file is not None:
            if own.pop("file") and "source" in own:
                raise UsageError("both `source` and `file` are given", hint="give one of them")
            own["source"] = await asyncio.to_thread(read_source, self._allow(place.file))
        return await self._use(name, own, task=path, target=target)

    def _allow(self, name: str) -> Path:
        """The file that a client names, if it lies where files may be named."""
        path = Path(name)
        if "\0" in name:
            raise UsageError(f"`{clean(name)}` is no path")
        if self.root is None:
            return path
        found = (self.root / path).resolve()
        if not found.is_relative_to(self.root.resolve()):
            raise UsageError(f"`{clean(path)}` is outside of the folder that this server may read")
        return found

    async def _use(self, name: str, given: Json, *, task: Path, target: Target) -> Said:
        judging = FarmJudging(
            executor=self.executor,
            task=task.absolute(),
            target=target,
            is_task_trusted=self.is_task_trusted,
            surface=self.surface,
        )
        docs = await asyncio.to_thread(find_library) if name == Tool.LOOK_UP else None
        tools = Calls(
            judging,
            target=target,
            root_seed=draw_root_seed(),
            tools=TOOLS,
            shelf=Shelf(docs=docs),
            surface=self.surface,
        )
        answer = await tools.call(ToolCall(id=name, name=name, arguments=given))
        return Said(text=answer.text)

    def _describe(self, path: Path, target: Target) -> str:
        task = self._load(path)
        brief = write_brief(task, target=target, surface=self.surface)
        return "\n".join((brief, *(f"Note: {note}" for note in task.notes)))

    def _load(self, path: Path) -> Task:
        """One at a time, as in every process that loads tasks."""
        with self._lock:
            if self.is_task_trusted:
                return load_task(path)
            return load_untrusted_task(path, host=self._host)

    @cached_property
    def _host(self) -> TaskHost:
        """Warmed once: that takes seconds."""
        return TaskHost(allow_unsandboxed=self.allow_unsandboxed)


def _widen(spec: ToolSpec, *, has_task: bool) -> ToolSpec:
    """The same tool with a place for its task, target and kernel file."""
    own: Json = dict(spec.parameters.get("properties", {}))
    required: Sequence[str] = spec.parameters.get("required", ())
    if spec.name in WITHOUT_KERNEL:
        return ToolSpec(
            name=spec.name,
            description=spec.description,
            parameters=_schema(own | {"target": PLACE["target"]}, required=required),
        )
    if "source" in own:
        own |= KERNEL
    needed = required if has_task else (*required, "task")
    return ToolSpec(
        name=spec.name,
        description=spec.description,
        parameters=_schema(own | PLACE, required=needed),
    )


def _schema(properties: Json, *, required: Sequence[str]) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, among others
        return False


def _find_target(name: str) -> Target:
    target = find_target(name.lower())
    if target is None:
        raise UsageError(f"no target `{name}`", hint=f"there are {', '.join(Target)}")
    return target
