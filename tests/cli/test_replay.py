"""`replay` and `report` show a run as it was, and refuse what is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nki_agent.report.figures import write_tokens
from nki_agent.report.stored import read_run
from tests.agent.tiny import RIGHT, WRONG
from tests.cli.calling import Called, call, use, write_script, write_task

HOSTILE = "</pre><script>alert(1)</script>\x1b[31m"
USAGE = {"input_tokens": 1200, "output_tokens": 340, "cached_tokens": 600}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a wrong kernel, a right one, and a text that would break a page."""
    solved(tmp_path)
    (path,) = (tmp_path / "runs").iterdir()
    return path


def solved(tmp_path: Path, *options: str) -> Called:
    lines = (
        use("look_up", query="exp"),
        {**use("verify_kernel", source=WRONG), "text": HOSTILE, "usage": USAGE},
        {**use("verify_kernel", source=RIGHT), "usage": USAGE},
        use("profile_kernel"),
        f"```python\n{RIGHT}```",
    )
    called = call(
        *("solve", write_task(tmp_path), "--model", write_script(tmp_path, *lines)),
        *("--runs", tmp_path / "runs", *options),
    )
    assert called.code == 0, called.err
    return called


def test_replay_shows_the_whole_conversation(run: Path) -> None:
    called = call("replay", run)
    assert called.code == 0, called.err
    assert '  → look_up(query="exp")' in called.out
    assert "  → verify_kernel with this kernel" in called.out
    assert "  → verify_kernel with this change" in called.out
    changed = [line.strip() for line in called.out.splitlines() if "operand0=" in line]
    assert any(line.startswith("-") and "2.0" in line for line in changed)
    assert any(line.startswith("+") and "1.0" in line for line in changed)
    assert "1200 tokens in, 340 out" in called.out
    assert "stage: right" in called.out
    assert "\x1b" not in called.out
    assert called.out.rstrip().endswith("The kernel is right.")


def test_replay_shows_prompts_on_demand(run: Path) -> None:
    assert "You write one kernel" not in call("replay", run).out
    assert "You write one kernel" in call("replay", run, "--prompts").out


def test_replay_shows_what_solve_showed(tmp_path: Path) -> None:
    live = solved(tmp_path, "--conversation").err
    (run,) = (tmp_path / "runs").iterdir()
    assert call("replay", run).out in live


def test_run_that_was_cut_off_is_shown_as_far_as_it_came(run: Path) -> None:
    trajectory = run / "trajectory.jsonl"
    lines = trajectory.read_bytes().splitlines(keepends=True)
    trajectory.write_bytes(b"".join(lines[:3]) + lines[3][:40])
    (run / "verdict.json").unlink()
    (run / "kernel.py").unlink()
    called = call("replay", run)
    assert (called.code, "cut off" in called.err) == (0, True)
    assert call("report", run).code == 0
    assert "cut off" in (run / "report.html").read_text()


def test_report_is_one_page_that_loads_nothing(run: Path) -> None:
    called = call("report", run)
    assert (called.code, called.out.strip()) == (0, str(run / "report.html"))
    page = (run / "report.html").read_text()
    for words in ("Path of attempts", "Estimated latency over turns", "Last verdict", "1200"):
        assert words in page
    assert page.count("<svg") == 2
    assert "tensor_scalar" in page
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "http" not in page.replace("http-equiv", "")


def test_report_takes_stage_and_latency_from_the_answers(run: Path) -> None:
    found = read_run(run)
    assert [(s.turn, s.tool, s.stage) for s in found.best.steps] == [
        (2, "verify_kernel", "wrong"),
        (3, "verify_kernel", "right"),
        (4, "profile_kernel", None),
    ]
    assert found.verdict is not None
    assert found.verdict.latency_ns is not None
    for step in found.best.steps[1:]:
        assert step.latency_ns == pytest.approx(found.verdict.latency_ns, rel=0.05)
    assert (found.usage.input_tokens, found.usd) == (2400, 0.0)


def test_page_of_a_run_without_a_kernel_is_made(tmp_path: Path) -> None:
    model = write_script(tmp_path, {"text": "I can't.", "stop": "refusal"})
    runs = tmp_path / "runs"
    assert call("solve", write_task(tmp_path), "--model", model, "--runs", runs).code == 1
    (run,) = runs.iterdir()
    called = call("report", run, "--out", tmp_path / "page.html")
    assert (called.code, "gave up" in (tmp_path / "page.html").read_text()) == (0, True)


@pytest.mark.parametrize("command", ["replay", "report"])
def test_what_is_no_run_is_named(command: str, tmp_path: Path, run: Path) -> None:
    (tmp_path / "empty").mkdir()
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "trajectory.jsonl").write_text('{"kind": "other"}\n')
    newer = tmp_path / "newer"
    newer.mkdir()
    first = json.loads((run / "trajectory.jsonl").read_text().splitlines()[0])
    (newer / "trajectory.jsonl").write_text(json.dumps({**first, "schema": 99}) + "\n")
    headless = tmp_path / "headless"
    headless.mkdir()
    (headless / "trajectory.jsonl").write_text("")
    for path, words in (
        (tmp_path / "nowhere", "holds no run"),
        (tmp_path / "empty", "holds no run"),
        (foreign, "no trajectory of this version"),
        (newer, "has the version 99"),
        (headless, "has no beginning"),
        (write_task(tmp_path), "no trajectory of this version"),
    ):
        called = call(command, path)
        assert (called.code, words in called.err) == (2, True), (path, called.err)


def test_report_that_cannot_be_written_is_named(run: Path, tmp_path: Path) -> None:
    called = call("report", run, "--out", tmp_path / "nowhere" / "page.html")
    assert (called.code, "cannot write" in called.err) == (2, True)


def test_run_of_the_benchmark_is_sent_to_its_own_report(run: Path) -> None:
    (run / "attempts.jsonl").write_text("")
    called = call("report", run)
    assert (called.code, "bench report" in called.err) == (2, True)


def test_replay_of_a_run_of_the_benchmark_names_its_attempts(run: Path) -> None:
    (run / "attempts.jsonl").write_text("")
    called = call("replay", run)
    assert (called.code, f"replay {run}/attempts/ID" in called.err) == (2, True)
    attempt = run / "attempts" / "a-trn2-0"
    attempt.mkdir(parents=True)
    (attempt / "trajectory.jsonl").write_bytes((run / "trajectory.jsonl").read_bytes())
    assert f"nki-agent replay {attempt}" in call("replay", run).err
    assert call("replay", attempt).code == 0


def test_every_sample_is_shown_and_the_one_that_counts_is_named(tmp_path: Path) -> None:
    usage = {"usage": USAGE}
    lines = (
        {**use("submit", source=WRONG), **usage},
        {**use("submit", source=RIGHT), **usage},
        {"text": "I can't.", "stop": "refusal", **usage},
    )
    given = ("--model", write_script(tmp_path, *lines), "--runs", tmp_path / "runs")
    called = call("solve", write_task(tmp_path), *given, "--samples", 3)
    assert called.code == 0, called.err
    (run,) = (tmp_path / "runs").iterdir()
    shown = call("replay", run).out
    heads = [line for line in shown.splitlines() if line.startswith("== sample")]
    best = "== sample 2 of 3: its kernel counts"
    assert heads == ["== sample 1 of 3", best, "== sample 3 of 3"]
    assert "I can't." in shown
    assert call("report", run).code == 0
    page = (run / "report.html").read_text()
    assert "<h2>Samples</h2>" in page
    assert "<b>solved</b>" in page
    assert "gave up" in page
    assert write_tokens(3 * USAGE["input_tokens"]) in page
    found = read_run(run)
    assert (found.best.number, found.usage.input_tokens) == (2, 3 * USAGE["input_tokens"])
    other = read_run(run / "trajectory-3.jsonl")
    assert (other.kernel, other.verdict) == (None, None)
    assert read_run(run / "trajectory-2.jsonl").kernel == RIGHT


def test_broken_sample_is_named(tmp_path: Path) -> None:
    lines = (use("submit", source=RIGHT), use("submit", source=RIGHT))
    given = ("--model", write_script(tmp_path, *lines), "--runs", tmp_path / "runs")
    assert call("solve", write_task(tmp_path), *given, "--samples", 2).code == 0
    (run,) = (tmp_path / "runs").iterdir()
    (run / "trajectory-2.jsonl").write_text("my notes\n")
    for command in ("replay", "report"):
        called = call(command, run)
        assert (called.code, "trajectory-2.jsonl" in called.err) == (2, True)
