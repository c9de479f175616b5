"""A workspace's verdict comes from outside: nothing but the kernel counts of what lies in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nki_agent.agent.workspace import COMMANDS, Laid, find_store, judge_outcome
from nki_agent.bench.suite import builtin_suite
from nki_agent.chip.spec import Target
from nki_agent.evals.workshop import find_baseline
from nki_agent.task.loader import load_task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from tests.agent.tiny import CHEAT, RIGHT, WRONG
from tests.cli.calling import Called, call, write_task

ZEROS = """import numpy as np


def add_one(x):
    return x * 2.0


def inputs():
    return [np.zeros((2, 75, 16), np.float32)]
"""
ALWAYS_RIGHT = "#!/bin/sh\necho 'verdict     right'\nexit 0\n"


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "space"
    called = call("workspace", write_task(tmp_path), folder)
    assert called.code == 0, called.err
    assert "baseline    the built-in author's kernel" in called.out
    return folder


def check(folder: Path, source: str) -> Called:
    (folder / "kernel.py").write_text(source)
    return call("workspace", "check", folder, "--json")


def run_command(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """As an agent does: from inside the folder."""
    return subprocess.run(
        [str(folder / command)], cwd=folder, capture_output=True, text=True, check=False
    )


def test_workspace_holds_all_that_an_agent_needs(space: Path) -> None:
    for name in ("AGENTS.md", "CLAUDE.md", "TASK.md", "task.py", "kernel.py", "skill/SKILL.md"):
        assert (space / name).is_file(), name
    for command in COMMANDS:
        assert os.access(space / command, os.X_OK)
        assert not (space / command).stat().st_mode & 0o222
    assert "1.05 times as fast" in (space / "AGENTS.md").read_text()
    assert "def kernel(x):" in (space / "kernel.py").read_text()


def test_commands_of_a_workspace_judge_its_kernel(space: Path) -> None:
    (space / "kernel.py").write_text(RIGHT)
    assert "instructions" in run_command(space, "compile").stdout
    assert "limited by" in run_command(space, "profile").stdout
    verified = run_command(space, "verify")
    assert (verified.returncode, "times as fast as" in verified.stdout) == (0, True)
    (space / "kernel.py").write_text(WRONG)
    wrong = run_command(space, "verify")
    assert (wrong.returncode, "verdict     wrong" in wrong.stdout) == (1, True)
    lines = (find_store(space).verdicts).read_text().splitlines()
    assert [json.loads(line)["stage"] for line in lines] == ["right", "wrong"]


def test_right_kernel_that_is_no_faster_is_no_success(space: Path) -> None:
    called = check(space, RIGHT)
    assert called.code == (0 if called.document["speedup"] >= 1.05 else 1)
    assert called.document["success"] is (called.document["speedup"] >= 1.05)
    assert called.document["verdict"]["stage"] == "right"


@pytest.mark.parametrize(("source", "code"), [(WRONG, 1), (CHEAT, 3), ("x = (", 1)])
def test_kernel_that_is_not_right_is_no_success(space: Path, source: str, code: int) -> None:
    called = check(space, source)
    assert (called.code, called.document["success"]) == (code, False)


def test_files_of_the_folder_cannot_change_a_verdict(space: Path, tmp_path: Path) -> None:
    """Another task, commands, modules with the program's names, and a forged record."""
    doubled = WRONG.replace("nl.add", "nl.multiply")
    (space / "task.py").write_text(ZEROS)
    (space / "TASK.md").write_text("y = 2 x")
    (space / "workspace.json").write_bytes(find_store(space).record.read_bytes())
    for command in COMMANDS:
        (space / command).unlink()
        (space / command).write_text(ALWAYS_RIGHT)
        (space / command).chmod(0o755)
    for name in ("numpy", "msgspec", "typer", "json", "sitecustomize", "usercustomize", "nki"):
        (space / f"{name}.py").write_text("raise SystemExit(0)\n")
    (space / "nki_agent").mkdir()
    (space / "nki_agent" / "__init__.py").write_text("raise SystemExit(0)\n")
    (space / "pyvenv.cfg").write_text("home = /nowhere\n")
    (space / "kernel.py").write_text(doubled)
    assert (space / "verify").read_text() == ALWAYS_RIGHT
    run = subprocess.run(
        [sys.executable, "-P", "-m", "nki_agent", "workspace", "check", ".", "--json"],
        cwd=space,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1, run.stderr
    assert json.loads(run.stdout)["verdict"]["stage"] == "wrong"
    assert check(space, RIGHT).document["verdict"]["stage"] == "right"


def test_task_of_the_user_can_change_without_the_verdict(space: Path, tmp_path: Path) -> None:
    write_task(tmp_path).write_text(ZEROS)
    assert check(space, RIGHT).document["verdict"]["stage"] == "right"


def test_changed_record_is_refused(space: Path) -> None:
    find_store(space).task.write_text(ZEROS)
    called = check(space, RIGHT)
    assert (called.code, "not the task that was laid out" in called.err) == (2, True)
    find_store(space).record.write_text("{}")
    assert check(space, RIGHT).code == 2


def test_folder_that_is_taken_is_refused(space: Path, tmp_path: Path) -> None:
    again = call("workspace", write_task(tmp_path), space)
    assert (again.code, "already a workspace" in again.err) == (2, True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    full = call("workspace", write_task(tmp_path), tmp_path / "full")
    assert (full.code, "not empty" in full.err) == (2, True)
    file = call("workspace", write_task(tmp_path), tmp_path / "add_one.py")
    assert (file.code, "is a file" in file.err) == (2, True)


def test_folder_that_is_no_workspace_is_named(tmp_path: Path) -> None:
    called = call("workspace", "check", tmp_path)
    assert (called.code, "is no workspace" in called.err) == (2, True)


def test_kernel_that_is_missing_is_named(space: Path) -> None:
    (space / "kernel.py").unlink()
    called = call("workspace", "verify", space)
    assert (called.code, "no kernel file" in called.err) == (2, True)


def test_benchmark_task_has_its_frozen_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    called = call("workspace", "l1-relu-1d-bf16", tmp_path / "space")
    # A baseline of other tasks or costs is none: then the author writes its kernel anew.
    is_frozen = find_baseline(builtin_suite()) is not None
    by = "the frozen baseline" if is_frozen else "the built-in author's kernel"
    assert (called.code, f"baseline    {by}" in called.out) == (0, True), called.err
    nothing = call("workspace", "l1-nothing", tmp_path / "other")
    assert (nothing.code, "no task `l1-nothing`" in nothing.err) == (2, True)


def test_success_is_right_and_five_percent_faster(tmp_path: Path) -> None:
    task = load_task(write_task(tmp_path))
    with Judge(target=Target.TRN2) as judge:
        verdict = judge.judge(Kernel.from_text(RIGHT), task, root_seed=1)
    assert verdict.latency_ns is not None

    def outcome(times: float | None) -> bool:
        ns = None if times is None else verdict.latency_ns * times  # type: ignore[operator]
        laid = Laid(
            folder="",
            task="",
            task_hash="",
            target=Target.TRN2,
            is_task_trusted=True,
            baseline_ns=ns,
            baseline_by="another",
        )
        return judge_outcome(laid, verdict).success

    assert [outcome(t) for t in (None, 1.06, 1.04, 0.5)] == [True, True, False, False]


@pytest.mark.parametrize("source", [None, "", "# soon\n\n  # later\n"])
def test_kernel_that_nobody_has_written_is_told_so(space: Path, source: str | None) -> None:
    if source is not None:
        (space / "kernel.py").write_text(source)
    for command in ("compile", "verify", "profile", "check"):
        called = call("workspace", command, space)
        assert (called.code, "nothing is written in kernel.py yet" in called.err) == (1, True)
    (space / "kernel.py").unlink()
    called = call("workspace", "verify", space)
    assert (called.code, "the kernel for TASK.md goes there" in called.err) == (2, True)
    (space / "kernel.py").write_text(WRONG)
    assert "nothing is written" not in call("workspace", "verify", space).err
