"""A run of the benchmark with a broken trajectory: it is named, and the rest goes on."""

import json
from pathlib import Path

import pytest

from nki_agent.agent.trajectory import Turn, read_trajectory
from tests.cli.calling import Called, call, write_script

USAGE = {"input_tokens": 1000, "output_tokens": 50}
SILENT = {"text": "no kernel", "usage": USAGE}
FIRST, SECOND = "l1-add-2d-bf16", "l1-relu-1d-bf16"
TASKS = ("--task", FIRST, "--task", SECOND, "--workers", 1, "--episodes", 1)
TURN_TOKENS = 1050


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The first task is done in three turns; of the second, one turn is paid."""
    model = write_script(tmp_path, SILENT, SILENT, SILENT)
    given = ("--model", model, "--runs", tmp_path / "runs", "--seed", 5)
    stopped = call("bench", "run", *given, *TASKS, "--budget-tokens", TURN_TOKENS * 4)
    assert stopped.code == 1, stopped.err
    (run,) = (tmp_path / "runs").iterdir()
    return run


def resume(run: Path) -> Called:
    budget = ("--budget-tokens", TURN_TOKENS * 100)
    return call("bench", "run", "--resume", run, "--workers", 1, "--episodes", 1, *budget)


def trajectory_of(run: Path, task: str) -> Path:
    return run / "attempts" / f"{task}-trn2-0" / "trajectory.jsonl"


def done_of(run: Path) -> list[str]:
    return [json.loads(line)["task"] for line in (run / "attempts.jsonl").read_text().splitlines()]


def break_foreign(path: Path) -> None:
    path.write_text("my notes\non something else\n")


def break_unended(path: Path) -> None:
    path.write_text("my notes, without a last line end")


def break_number(path: Path) -> None:
    path.write_text(path.read_text().replace('"turn":1', '"turn":4'))


def break_middle(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:50] + b"\n" + b"".join(lines[2:]))


def break_binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)) + b"\n")


def break_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


BREAKS = (break_foreign, break_unended, break_number, break_middle, break_binary, break_folder)


@pytest.mark.parametrize("break_it", BREAKS)
def test_broken_trajectory_is_named_and_kept_and_the_rest_goes_on(
    break_it: object, run: Path
) -> None:
    assert callable(break_it)
    lines = (run / "attempts.jsonl").read_bytes().splitlines(keepends=True)
    (run / "attempts.jsonl").write_bytes(b"")
    broken, whole = trajectory_of(run, SECOND), trajectory_of(run, FIRST)
    break_it(broken)
    before = broken.read_bytes() if broken.is_file() else None
    called = resume(run)
    assert called.code == 4, called.err
    assert f"lost      {SECOND}-trn2-0: `{broken}`" in called.err
    assert "move it away" in called.err
    assert "a bug of nki-agent" not in called.err
    assert done_of(run) == [FIRST]
    assert len([e for e in read_trajectory(whole) if isinstance(e, Turn)]) == 3
    assert before is None or broken.read_bytes() == before
    assert len(lines) == 1
    broken.rename(broken.with_name("moved"))
    again = resume(run)
    assert (again.code, done_of(run)) == (0, [FIRST, SECOND]), again.err


@pytest.mark.parametrize("break_it", BREAKS)
def test_broken_trajectory_of_a_made_attempt_is_told_and_does_no_harm(
    break_it: object, run: Path
) -> None:
    assert callable(break_it)
    broken = trajectory_of(run, FIRST)
    break_it(broken)
    called = resume(run)
    assert called.code == 0, called.err
    assert f"note: what was spent in `{broken}` is not counted" in called.err
    assert done_of(run) == [FIRST, SECOND]


@pytest.mark.parametrize("data", [b"", b"\0\0\0\0", b'{"kind":"tu'])
def test_torn_last_line_and_empty_file_are_put_right(data: bytes, run: Path) -> None:
    path = trajectory_of(run, SECOND)
    kept = path.read_bytes() if data else b""
    path.write_bytes(kept + data)
    called = resume(run)
    assert (called.code, done_of(run)) == (0, [FIRST, SECOND]), called.err
    assert len([e for e in read_trajectory(path) if isinstance(e, Turn)]) == 3


@pytest.mark.parametrize("data", [b"", b'{"schema":1,"tas', b'{"schema":'])
def test_torn_results_lose_nothing_else(data: bytes, run: Path) -> None:
    path = run / "attempts.jsonl"
    path.write_bytes(path.read_bytes() + data)
    called = resume(run)
    assert (called.code, done_of(run)) == (0, [FIRST, SECOND]), called.err
    assert ("was cut off" in called.err) == bool(data)


def test_foreign_results_are_named_and_kept(run: Path) -> None:
    path = run / "attempts.jsonl"
    path.write_text("my notes\n")
    called = resume(run)
    assert (called.code, path.read_text()) == (2, "my notes\n")
    assert f"line 1 of `{path}` is no result" in called.err
