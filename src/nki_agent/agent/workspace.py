"""A folder for a coding agent: task, skill, `kernel.py` and commands; what judges lies elsewhere.

Law: of all files in the folder only the kernel is ever read again. The task, its target and the
baseline are kept in this user's own data folder under a name made from the workspace's path, so
nothing that is written in the workspace leads to another judge. Success = right, and at least
`SPEEDUP_MIN` times as fast as the baseline, where there is one.
"""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

import msgspec

from nki_agent import __version__
from nki_agent.agent.skill import write_skill
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_bytes, hash_text, short_hash
from nki_agent.base.jsonl import append_line
from nki_agent.chip.spec import Target
from nki_agent.task.task import Task
from nki_agent.verify.verdict import Verdict

SPEEDUP_MIN = 1.05
"""At least 5 % faster than the baseline."""
SCHEMA = 1
KERNEL = "kernel.py"
COMMANDS = ("compile", "verify", "profile")
EXECUTABLE = 0o555
START = '''\
"""A kernel for the task in TASK.md."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel({arguments}):
    pass  # write it here
'''


class Laid(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a workspace is judged by."""

    schema: int = SCHEMA
    version: str = __version__
    folder: str
    task: str
    task_hash: str
    """Of the task file's text."""
    target: Target
    is_task_trusted: bool
    baseline_ns: float | None
    """Latency to be compared with, at the task's perf shapes; None where nothing could be had."""
    baseline_by: str
    """Where it comes from, or why there is none."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What `workspace check` says."""

    success: bool
    reason: str
    speedup: float | None
    baseline_ns: float | None
    baseline_by: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Store:
    """The part of a workspace that lies outside of it."""

    path: Path

    @property
    def record(self) -> Path:
        """What it is judged by."""
        return self.path / "workspace.json"

    @property
    def task(self) -> Path:
        """The task as it was when the workspace was laid."""
        return self.path / "task.py"

    @property
    def verdicts(self) -> Path:
        """Every verdict, as they came."""
        return self.path / "verdicts.jsonl"

    def add(self, verdict: Verdict) -> None:
        """Keep a verdict."""
        append_line(self.verdicts, verdict)


def data_folder() -> Path:
    """Where this user's workspaces are kept."""
    root = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(root) / "nki-agent" / "workspaces"


def find_store(folder: Path) -> Store:
    """The store of a workspace's folder, made or not."""
    name = short_hash(hash_bytes(os.fsencode(folder.resolve())))
    return Store(data_folder() / name)


def read_laid(folder: Path) -> tuple[Store, Laid]:
    """What a folder is judged by.

    Raises:
        UsageError: it is no workspace, or what was kept of it is not whole.
    """
    store = find_store(folder)
    hint = "lay one with `nki-agent workspace TASK DIR`; a folder that was moved is no workspace"
    try:
        laid = msgspec.json.decode(store.record.read_bytes(), type=Laid)
        text = store.task.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(f"`{folder}` is no workspace", hint=hint) from error
    except OSError as error:
        raise UsageError(f"cannot read `{store.path}`: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"`{store.record}` is not of this version: {error}", hint=hint) from error
    if hash_text(text) != laid.task_hash or laid.schema != SCHEMA:
        raise UsageError(f"`{store.task}` is not the task that was laid out", hint=hint)
    return store, laid


def require_new(folder: Path) -> None:
    """Refuse a folder that holds anything.

    Raises:
        UsageError: it is a workspace already, has other files, or is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"`{folder}` is a file", hint="name a folder that is new or empty")
    if folder.is_dir() and any(folder.iterdir()):
        known = find_store(folder).record.exists()
        what = "already a workspace" if known else "not empty"
        raise UsageError(f"`{folder}` is {what}", hint="name a folder that is new or empty")


def lay_out(folder: Path, task: Task, laid: Laid, *, brief: str) -> Store:
    """Write both parts of a workspace; `brief` is the task in words.

    Raises:
        UsageError: one of the folders cannot be written.
    """
    require_new(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        store = find_store(folder)
        store.path.mkdir(parents=True, exist_ok=True)
        store.verdicts.unlink(missing_ok=True)
        store.task.write_text(task.source, encoding="utf-8")
        store.record.write_bytes(msgspec.json.format(msgspec.json.encode(laid), indent=2))
        _write_folder(folder, task, laid, brief)
    except OSError as error:
        raise UsageError(f"cannot write the workspace `{folder}`: {error.strerror}") from error
    return store


def is_unwritten(source: str, task: Task) -> bool:
    """Whether nobody has written a kernel yet: the file is as it was laid out, or has no code."""
    if source.strip() == _write_start(task).strip():
        return True
    return all(not line.strip() or line.lstrip().startswith("#") for line in source.splitlines())


def judge_outcome(laid: Laid, verdict: Verdict) -> Outcome:
    """Whether a workspace's task is done."""
    speedup = None
    if laid.baseline_ns is not None and verdict.latency_ns is not None:
        speedup = laid.baseline_ns / verdict.latency_ns
    if not verdict.right:
        success, reason = False, f"the kernel is {verdict.stage.value}"
    elif speedup is None:
        success, reason = True, f"the kernel is right; no baseline: {laid.baseline_by}"
    else:
        success = speedup >= SPEEDUP_MIN
        reason = f"the kernel is right, {speedup:.2f} times as fast as {laid.baseline_by}"
        if not success:
            reason += f"; {SPEEDUP_MIN:g} is asked for"
    return Outcome(
        success=success,
        reason=reason,
        speedup=speedup,
        baseline_ns=laid.baseline_ns,
        baseline_by=laid.baseline_by,
        verdict=verdict,
    )


def _write_folder(folder: Path, task: Task, laid: Laid, brief: str) -> None:
    faster = ""
    if laid.baseline_ns is not None:
        faster = (
            f", and at least {SPEEDUP_MIN:g} times as fast as {laid.baseline_by}"
            f" ({laid.baseline_ns / 1e3:.1f} µs)"
        )
    text = files("nki_agent.agent").joinpath("outside", "workspace.md").read_text(encoding="utf-8")
    guide = Template(text).substitute(target=laid.target.value, faster=faster)
    for name, content in {
        "AGENTS.md": guide,
        "CLAUDE.md": "@AGENTS.md\n",
        "TASK.md": brief,
        "task.py": task.source,
        KERNEL: _write_start(task),
    }.items():
        (folder / name).write_text(content, encoding="utf-8")
    write_skill(folder / "skill", target=laid.target)
    for command in COMMANDS:
        path = folder / command
        path.write_text(_write_command(command, folder), encoding="utf-8")
        path.chmod(EXECUTABLE)


def _write_start(task: Task) -> str:
    return START.format(arguments=", ".join(argument.name for argument in task.arguments))


def _write_command(command: str, folder: Path) -> str:
    # -P: modules of the current folder must not stand in for those of the program.
    call = (sys.executable, "-P", "-m", "nki_agent", "workspace", command, str(folder.resolve()))
    return f'#!/bin/sh\nexec {shlex.join(call)} "$@"\n'
