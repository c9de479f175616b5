"""`bench list | show | run | report | compare | baseline`."""

import json
import sys
from pathlib import Path

import msgspec
import pytest

from nki_agent.bench.baselines import Baseline
from nki_agent.bench.suite import TASKS, Suite, builtin_suite
from nki_agent.check.surface import Surface
from nki_agent.evals.results import LINES, read_config
from nki_agent.evals.workshop import explain_no_baseline
from tests.cli.calling import Called, call, use, write_script
from tests.evals.made import TASKS as EVAL_TASKS
from tests.evals.made import make_attempt, make_config, write_run, write_usual_run
from tests.isa_kernels import LEAKY_RELU

EASY = ("l1-relu-1d-bf16", "l1-sub-colvec-2d")


def run(folder: Path, *options: object) -> Called:
    tasks = [part for task in EASY for part in ("--task", task)]
    return call("bench", "run", *tasks, "--runs", folder, "--seed", 1, "--workers", 1, *options)


def test_list_has_every_task_of_a_split() -> None:
    assert len(call("bench", "list").out.splitlines()) == 250
    rows = call("bench", "list", "--split", "smoke-12", "--json").document
    assert len(rows) == 12
    assert set(rows[0]) == {"id", "level", "category", "sha256", "path"}


def test_show_says_how_a_task_is_judged_and_what_bounds_it() -> None:
    out = call("bench", "show", EASY[0]).out
    assert "equal element for element (EX)" in out
    assert "also at perf: x [16777216]" in out
    assert "bound at perf on trn2" in out
    assert "class Model" in call("bench", "show", EASY[0], "--source").out


def test_unknown_names_are_told_with_the_nearest() -> None:
    assert "did you mean `smoke-12`" in call("bench", "list", "--split", "smoke-21").err
    called = call("bench", "show", "l1-relu-1d")
    assert called.code == 2
    assert "l1-relu-1d-bf16" in called.err


def test_run_writes_attempts_and_resumes_without_a_second_one(tmp_path: Path) -> None:
    called = run(tmp_path)
    assert called.code == 0, called.err
    assert "[2/2]" in called.err
    assert "| trn2 | 2 | 100.0 " in called.out
    (folder,) = tmp_path.iterdir()
    before = (folder / LINES).read_bytes()
    assert len(before.splitlines()) == 2
    kernels = list(folder.glob("attempts/*/kernel.py"))
    assert len(kernels) == 2
    # One attempt is lost: only that one is made again.
    (folder / LINES).write_bytes(before.splitlines(keepends=True)[0])
    again = call("bench", "run", "--resume", folder, "--workers", 1)
    assert again.code == 0, again.err
    assert again.err.count("[2/2]") == 1
    assert "[1/2]" not in again.err
    assert len((folder / LINES).read_bytes().splitlines()) == 2


def test_same_seed_gives_the_same_attempts(tmp_path: Path) -> None:
    def kernels(folder: Path) -> list[str]:
        run(folder)
        lines = next(folder.iterdir()).joinpath(LINES).read_text().splitlines()
        return sorted(json.loads(line)["kernel_hash"] for line in lines)

    assert kernels(tmp_path / "a") == kernels(tmp_path / "b")


def test_what_cannot_be_made_is_named(tmp_path: Path) -> None:
    called = call("bench", "run", "--task", EASY[0], "--split", "smoke-12", "--runs", tmp_path)
    assert called.code == 2
    assert "leave one out" in called.err
    assert call("bench", "run", "--resume", tmp_path).code == 2
    assert call("bench", "run", "--suite", tmp_path, "--runs", tmp_path).code == 2
    assert call("bench", "run", "--target", "trn2,trn9", "--runs", tmp_path).code == 2


def test_report_compare_and_baseline_read_runs(tmp_path: Path) -> None:
    first = write_usual_run(tmp_path / "first")
    second = write_usual_run(tmp_path / "second", model="other")
    page = tmp_path / "page.html"
    assert "## By category" in call("bench", "report", first, "--html", page).out
    assert page.read_text().startswith("<!doctype html>")
    assert call("bench", "report", first, "--json").document[0]["config"]["model"] == "builtin"
    assert "other (loop)" in call("bench", "compare", first, second).out
    out = tmp_path / "baseline.json"
    assert call("bench", "baseline", first, "--out", out).code == 0
    baseline = Baseline(**json.loads(out.read_text()) | {"entries": ()})
    assert baseline.suite == "tiny 1"
    assert [e["task"] for e in json.loads(out.read_text())["entries"]] == ["l1-add"]


def test_runs_of_other_splits_are_not_compared(tmp_path: Path) -> None:
    first = write_usual_run(tmp_path / "first")
    second = write_usual_run(tmp_path / "second", tasks=EVAL_TASKS[:3])
    called = call("bench", "compare", first, second)
    assert called.code == 2
    assert "compare runs over the same tasks" in called.err


def test_builtin_author_is_refused_on_the_surface_isa_before_a_run_begins(tmp_path: Path) -> None:
    for command in (("bench", "run"), ("solve", TASKS / "l1-leaky-relu-2d.py")):
        called = call(*command, "--surface", "isa", "--runs", tmp_path / "runs")
        assert called.code == 2
        assert "does not write the surface `isa`" in called.err
    assert not (tmp_path / "runs").exists()


def test_run_on_the_surface_isa_is_recorded_and_never_mixed(tmp_path: Path) -> None:
    options = ("--task", "l1-leaky-relu-2d", "--runs", tmp_path / "runs", "--seed", 1)
    model = write_script(tmp_path, use("submit", source=LEAKY_RELU))
    for surface in ("isa", "nki"):
        called = call(
            "bench", "run", *options, "--model", model, "--surface", surface, "--workers", 1
        )
        assert called.code == 0, called.err
        assert "| trn2 | 1 | 100.0 " in called.out
    folders = {read_config(f).surface.value: f for f in (tmp_path / "runs").iterdir()}
    config = json.loads((folders["isa"] / "config.json").read_text())
    assert (config["surface"], config["level_turns"]) == ("isa", {"1": 15, "2": 20, "3": 25})
    assert json.loads((folders["isa"] / LINES).read_text())["surface"] == "isa"
    report = call("bench", "report", folders["isa"]).out
    assert "surface `isa`" in report
    assert "at most 15 turns" in report
    compared = call("bench", "compare", folders["isa"], folders["nki"])
    assert compared.code == 2
    assert "on one surface" in compared.err
    assert call("bench", "baseline", folders["isa"], "--out", tmp_path / "b.json").code == 2


def test_results_of_another_surface_in_a_run_are_refused(tmp_path: Path) -> None:
    run_folder = write_run(
        tmp_path / "run", make_config(), [make_attempt(EVAL_TASKS[0], surface=Surface.ISA)]
    )
    called = call("bench", "report", run_folder)
    assert called.code == 2
    assert "never mixed" in called.err


def test_kernel_past_its_bound_is_told_and_never_frozen(tmp_path: Path) -> None:
    attempt = make_attempt(EVAL_TASKS[0])
    speed = msgspec.structs.replace(attempt.speeds[0], latency_ns=900.0, percent_of_bound=111.1)
    attempt = msgspec.structs.replace(attempt, speeds=(speed,))
    run_folder = write_run(tmp_path / "run", make_config(), [attempt])
    assert "faster than their bound" in call("bench", "report", run_folder).out
    called = call("bench", "baseline", run_folder, "--out", tmp_path / "b.json")
    assert called.code == 2
    assert "l1-add" in called.err


def test_missing_pytorch_is_told_before_a_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "torch", None)  # as Python does where an import is barred
        called = call("bench", "run", "--task", EASY[0], "--runs", tmp_path / "runs")
    assert called.code == 2
    assert "pip install '.[torch]'" in called.err
    assert not (tmp_path / "runs").exists()


def test_unknown_task_is_told_with_near_names_and_the_list() -> None:
    assert "`nki-agent bench list`" in call("bench", "show", "nope").err
    assert call("bench", "show", "softmax").err.count("softmax") > 2


def test_missing_baseline_says_what_the_frozen_one_is_of() -> None:
    suite = builtin_suite()
    other = Suite(name=suite.name, version=suite.version, tasks=suite.tasks[:3])
    assert other.hash[:12] in explain_no_baseline(other)
    assert "`make baseline`" in explain_no_baseline(other)


@pytest.mark.parametrize(
    ("dialect", "words"),
    [("neuronxcc.nki", "arrives in a later version"), ("cuda", "no dialect `cuda`")],
)
def test_dialect_that_is_not_written_leaves_no_run(
    tmp_path: Path, dialect: str, words: str
) -> None:
    called = run(tmp_path / "runs", "--dialect", dialect)
    assert called.code == 2
    assert words in called.err
    assert not (tmp_path / "runs").exists()
