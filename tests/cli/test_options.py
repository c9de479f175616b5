"""Options that cannot be meant: refused alike by every command, before anything is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_text
from nki_agent.base.seeds import SEED_MAX, draw_root_seed, require_seed
from nki_agent.bench.importers.toml import write_toml
from nki_agent.bench.suite import SUITE_FILE, Source, Status, SuiteRecord, TaskRow
from nki_agent.evals.results import LINES
from nki_agent.farm.job import Job
from nki_agent.farm.local import LocalExecutor
from nki_agent.verify.kernel import Kernel
from tests.agent.tiny import RIGHT, WRONG
from tests.cli.calling import call, write_kernel, write_script, write_task
from tests.evals.made import write_usual_run

TASK = "l1-relu-1d-bf16"
RUN = ("bench", "run", "--workers", 1)
NOTE_TASK = """
import numpy as np


def reference(x, y):
    return np.maximum(x, 0.0)


def inputs(rng):
    return {
        "x": rng.standard_normal((64, 32)).astype(np.float32),
        "y": rng.standard_normal((64, 32)).astype(np.float32),
    }
"""


@pytest.mark.parametrize("seed", [2**63, 2**64, 2**70, -1])
def test_seed_out_of_range_is_a_usage_error_everywhere(tmp_path: Path, seed: int) -> None:
    task, kernel = write_task(tmp_path), write_kernel(tmp_path)
    other = kernel.with_name("other.py")
    other.write_text(WRONG)
    runs = tmp_path / "runs"
    for command in (
        ("verify", kernel, "--task", task),
        ("verify", kernel, other, "--task", task),
        ("solve", task, "--runs", runs),
        (*RUN, "--task", TASK, "--runs", runs),
        ("bench", "hide", "--out", runs),
    ):
        called = call(*command, "--seed", seed)
        assert called.code == 2, called.err
        assert f"between 0 and {SEED_MAX}" in " ".join(called.err.split())
        assert not runs.exists()
    with pytest.raises(UsageError, match="between 0 and"):
        Job(id="x", kernel=Kernel.from_text(RIGHT), task=task, root_seed=seed)


def test_every_seed_that_is_drawn_is_one_that_may_be_given() -> None:
    assert all(require_seed(seed) == seed for seed in (0, SEED_MAX, draw_root_seed()))
    assert call("verify", "k.py", "--task", "t.py", "--seed", "many").code == 2


def test_largest_seed_is_judged_alone_and_among_others(tmp_path: Path) -> None:
    task, kernel = write_task(tmp_path), write_kernel(tmp_path)
    results = tmp_path / "results.jsonl"
    assert call("verify", kernel, "--task", task, "--seed", SEED_MAX, "--json").code == 0
    called = call("verify", kernel, "--task", task, "--seed", SEED_MAX, "--results", results)
    assert called.code == 0, called.err
    assert json.loads(results.read_text())["end"]["verdict"]["root_seed"] == SEED_MAX


@pytest.mark.parametrize(
    "option", [("--turns", 2**70), ("--samples", 2**70), ("--workers", 2**70), ("--turns", 0)]
)
def test_number_out_of_range_is_a_usage_error(tmp_path: Path, option: tuple[str, int]) -> None:
    called = call("bench", "run", "--task", TASK, "--runs", tmp_path / "runs", *option)
    assert called.code == 2, called.err
    assert not (tmp_path / "runs").exists()


def test_target_or_task_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    options = ("--task", TASK, "--task", TASK, "--target", "trn2, TRN2,trn2", "--runs", runs)
    called = call(*RUN, *options)
    assert called.code == 0, called.err
    assert "[1/1]" in called.err
    (folder,) = runs.iterdir()
    assert len((folder / LINES).read_bytes().splitlines()) == 1
    assert json.loads((folder / "config.json").read_text())["targets"] == ["trn2"]


def test_file_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    task, kernel = write_task(tmp_path), write_kernel(tmp_path)
    assert "1 file, " in call("task", "lint", task, task).err
    assert "1 file, " in call("check", kernel, kernel, tmp_path / "." / "kernel.py").err


def test_run_that_is_named_twice_is_no_comparison(tmp_path: Path) -> None:
    run = write_usual_run(tmp_path / "run")
    for runs in ((run,), (run, run)):
        called = call("bench", "compare", *runs)
        assert called.code == 2
        assert "alone is no comparison" in called.err


def write_suite(folder: Path, *rows: TaskRow) -> Path:
    source = Source(name="x", format="y", source_sha256="0" * 64, limit_elems=1, tool_version="1")
    folder.mkdir(exist_ok=True)
    (folder / SUITE_FILE).write_text(write_toml(SuiteRecord(source=source, task=rows)))
    return folder


UNFIT = TaskRow(
    id="t-one", file="", sha256="", origin="a", status=Status.UNFIT, reasons=("it is noisy",)
)


@pytest.mark.parametrize("rows", [(), (UNFIT,)])
def test_suite_without_a_fit_task_is_refused(tmp_path: Path, rows: tuple[TaskRow, ...]) -> None:
    suite, runs = write_suite(tmp_path / "suite", *rows), tmp_path / "runs"
    for command in (
        ("bench", "list", "--suite", suite),
        ("bench", "list", "--suite", suite, "--json"),
        ("bench", "list", "--suite", suite, "--split", "all"),
        (*RUN, "--suite", suite, "--runs", runs),
        (*RUN, "--suite", suite, "--runs", runs, "--split", "all", "--trust-suite"),
        (*RUN, "--suite", suite, "--runs", runs, "--model", write_script(tmp_path, "no")),
    ):
        called = call(*command)
        assert (called.code, called.out) == (2, ""), called.err
        assert "has no fit task" in called.err
        assert ("it is noisy" in called.err) == bool(rows)
        assert not runs.exists()


def test_suite_with_an_id_twice_is_refused(tmp_path: Path) -> None:
    called = call("bench", "list", "--suite", write_suite(tmp_path / "suite", UNFIT, UNFIT))
    assert called.code == 2
    assert "has the task `t-one` twice" in called.err


MODELS = {
    "scripted/": "names no FILE",
    "scripted": "names no FILE",
    "scripted/nope": "cannot read the script",
    "scripted/.": "cannot read the script",
    "scripted/broken.jsonl": "not a reply",
    "scripted/binary.jsonl": "not text in UTF-8",
    "builtins": "did you mean `builtin`",
    "builtin/": "no model",
    "": "no model",
    "foo/bar": "no model",
    "anthropic/x": "needs a key",
    "openai": "names no model",
}


@pytest.mark.parametrize("model", MODELS)
def test_model_that_is_none_leaves_no_run(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    task, runs = write_task(tmp_path), tmp_path / "runs"
    (tmp_path / "broken.jsonl").write_text("{\n")
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\0")
    for command in (("solve", task), (*RUN, "--task", TASK)):
        called = call(*command, "--runs", runs, "--model", model)
        assert called.code == 2, called.err
        assert MODELS[model] in called.err
        assert not runs.exists()


def test_run_whose_script_is_gone_is_not_resumed(tmp_path: Path) -> None:
    model, runs = write_script(tmp_path, "no kernel"), tmp_path / "runs"
    call(*RUN, "--task", TASK, "--runs", runs, "--model", model)
    (folder,) = runs.iterdir()
    (tmp_path / "script.jsonl").unlink()
    (folder / LINES).write_bytes(b"")
    called = call("bench", "run", "--resume", folder)
    assert (called.code, called.out) == (2, ""), called.err
    assert (folder / LINES).read_bytes() == b""


def test_config_that_was_changed_is_not_resumed(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    call(*RUN, "--task", TASK, "--runs", runs, "--seed", 1)
    (folder,) = runs.iterdir()
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"samples": 1', '"samples": 2'))
    called = call("bench", "run", "--resume", folder)
    assert called.code == 2, called.err
    assert "another config" in called.err


def test_notes_of_a_task_are_shown_once_for_one_kernel_or_many(tmp_path: Path) -> None:
    task = tmp_path / "task.py"
    task.write_text(NOTE_TASK)
    kernel, other = write_kernel(tmp_path, RIGHT), tmp_path / "other.py"
    other.write_text(WRONG)
    alone = call("verify", kernel, "--task", task)
    notes = [line for line in alone.err.splitlines() if line.startswith("note: ")]
    assert notes
    results = tmp_path / "results.jsonl"
    options = ("--task", task, "--workers", 2, "--results", results)
    for called in (
        call("verify", kernel, other, *options),
        call("verify", kernel, other, *options),
    ):
        assert [line for line in called.err.splitlines() if line.startswith("note: ")] == notes


def test_author_that_may_not_read_the_suite_leaves_no_run(tmp_path: Path) -> None:
    text = NOTE_TASK
    fit = TaskRow(id="t-two", file="t.py", sha256=hash_text(text), origin="a", status=Status.FIT)
    suite, runs = write_suite(tmp_path / "suite", fit), tmp_path / "runs"
    (suite / "t.py").write_text(text)
    called = call(*RUN, "--suite", suite, "--runs", runs)
    assert called.code == 2
    assert "--trust-suite" in called.err
    assert not runs.exists()


@pytest.mark.parametrize("seconds", ["inf", "nan", "-1", "86401", "1e300"])
def test_search_has_a_longest_time(seconds: str, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for command in (("solve", write_task(tmp_path)), ("bench", "run", "--task", TASK)):
        called = call(*command, "--runs", runs, "--optimize-seconds", seconds)
        assert (called.code, runs.exists()) == (2, False), called.err


def test_search_has_its_time_beside_that_of_the_episode(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    given = ("--optimize-seconds", "0.01", "--runs", runs)
    assert call("solve", write_task(tmp_path), *given).code == 0
    (run,) = runs.iterdir()
    limits = json.loads((run / "config.json").read_text())["limits"]
    assert limits["wall_s"] == pytest.approx(1800.01)


@pytest.mark.parametrize("workers", ["0", "1025", "100000000"])
def test_workers_have_a_most(workers: str) -> None:
    for command in (("mcp",), ("bench", "run"), ("verify", "k.py", "--task", "t.py")):
        assert call(*command, "--workers", workers).code == 2
    with pytest.raises(UsageError, match="workers cannot judge"):
        LocalExecutor(workers=int(workers))


def test_split_that_is_taken_is_said_in_help() -> None:
    shown = " ".join(call("bench", "run", "--help").out.split())
    assert "smoke-12, which is taken if left out" in shown
