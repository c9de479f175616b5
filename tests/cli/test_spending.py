"""Budgets, prices, recordings and resumed runs from the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from nki_agent.agent.trajectory import Turn, read_trajectory
from tests.agent.tiny import REFUSED, RIGHT, WRONG
from tests.cli.calling import Called, call, use, write_script, write_task

PRICES = """
schema = 1
dated = "2026-09-01"
source = "a test"
[[price]]
model = "scripted/*"
input = 10.0
cached = 1.0
cache_write = 20.0
output = 100.0
"""
USAGE = {"input_tokens": 1000, "cached_tokens": 600, "cache_write_tokens": 100, "output_tokens": 50}
TURN_USD = (300 * 10 + 600 * 1 + 100 * 20 + 50 * 100) / 1e6


def paid(tool: str, **arguments: str) -> dict[str, Any]:
    return {**use(tool, **arguments), "usage": USAGE}


LINES = (
    paid("verify_kernel", source=REFUSED),
    paid("verify_kernel", source=WRONG),
    paid("submit", source=RIGHT),
)


def write_prices(folder: Path) -> Path:
    path = folder / "prices.toml"
    path.write_text(PRICES)
    return path


def solve(folder: Path, *options: object, lines: tuple[Any, ...] = LINES) -> Called:
    model = write_script(folder, *lines)
    fixed = ("--model", model, "--runs", folder / "runs", "--json")
    return call("solve", write_task(folder), *fixed, *options)


def the_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


def count_turns(run: Path) -> int:
    return sum(isinstance(e, Turn) for e in read_trajectory(run / "trajectory.jsonl"))


def test_every_turn_is_priced_and_summed(tmp_path: Path) -> None:
    called = solve(tmp_path, "--prices", write_prices(tmp_path))
    assert called.code == 0
    assert called.document["usd"] == pytest.approx(3 * TURN_USD)
    turns = [
        e for e in read_trajectory(the_run(tmp_path) / "trajectory.jsonl") if isinstance(e, Turn)
    ]
    assert [t.reply.usd for t in turns] == pytest.approx([TURN_USD] * 3)
    config = json.loads((the_run(tmp_path) / "config.json").read_text())
    assert config["tariff"]["source"] == "a test, 2026-09-01"


def test_scripts_are_free_without_a_price(tmp_path: Path) -> None:
    assert solve(tmp_path).document["usd"] == 0.0


def test_hour_of_a_machine_is_charged_by_its_time(tmp_path: Path) -> None:
    assert 0 < solve(tmp_path, "--gpu-hour", 3600).document["usd"] < 5


@pytest.mark.parametrize(
    ("options", "turns", "end"),
    [
        (("--budget-dollars", 0), 0, "run_budget"),
        (("--budget-tokens", 0), 0, "run_budget"),
        (("--budget-dollars", TURN_USD), 1, "run_budget"),
        (("--budget-tokens", 1051), 2, "run_budget"),
        (("--task-dollars", TURN_USD * 1.5), 2, "budget"),
        (("--task-tokens", 1), 1, "tokens"),
    ],
)
def test_budget_stops_before_the_next_reply(
    options: tuple[object, ...], turns: int, end: str, tmp_path: Path
) -> None:
    called = solve(tmp_path, "--prices", write_prices(tmp_path), *options)
    assert (called.code, called.document["turns"], called.document["end"]) == (1, turns, end)
    assert count_turns(the_run(tmp_path)) == turns


def test_run_without_money_goes_on_with_more(tmp_path: Path) -> None:
    stopped = solve(tmp_path, "--prices", write_prices(tmp_path), "--budget-dollars", TURN_USD)
    run = the_run(tmp_path)
    assert stopped.document["end"] == "run_budget"
    still = call("resume", run, "--json")
    assert (still.code, still.document["end"], count_turns(run)) == (1, "run_budget", 1)
    # What was spent before counts: two more turns need three turns' money.
    short = call("resume", run, "--json", "--budget-dollars", TURN_USD * 2)
    assert (short.document["end"], count_turns(run)) == ("run_budget", 2)
    done = call("resume", run, "--json", "--budget-dollars", 1)
    assert (done.code, done.document["end"], count_turns(run)) == (0, "solved", 3)
    assert done.document["usd"] == pytest.approx(3 * TURN_USD)
    assert json.loads((run / "verdict.json").read_text())["stage"] == "right"
    again = call("resume", run)
    assert again.code == 2
    assert "has ended: solved" in again.err


def test_changed_task_does_not_go_on(tmp_path: Path) -> None:
    solve(tmp_path, "--budget-tokens", 0)
    task = write_task(tmp_path)
    task.write_text(task.read_text() + "\n# other\n")
    called = call("resume", the_run(tmp_path))
    assert called.code == 2
    assert "is not as it was when the run began" in called.err


def test_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    called = call("resume", tmp_path)
    assert called.code == 2
    assert "is no run: config.json" in called.err


def test_dollars_without_a_price_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("MY_BASE_URL", "http://127.0.0.1:9/v1")
    fixed = ("--model", "openai-api/my/m", "--runs", tmp_path / "runs")
    called = call("solve", write_task(tmp_path), *fixed, "--budget-dollars", 1)
    assert called.code == 2
    assert "needs a price, and there is none for `openai-api/my/m`" in called.err
    assert "--gpu-hour" in called.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("schema = 1", "missing required field `dated`"),
        ("schema = 2\ndated = ''\nsource = ''", "has schema 2"),
        ("x = [", "is no table of prices"),
        (PRICES.replace("10.0", "-1.0"), "is below 0"),
    ],
)
def test_bad_table_is_named(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(text)
    called = solve(tmp_path, "--prices", path)
    assert called.code == 2
    assert words in called.err
    assert not (tmp_path / "runs").exists()


def test_recording_gives_the_same_kernel_and_verdict(tmp_path: Path) -> None:
    told = solve(tmp_path)
    run = the_run(tmp_path)
    again = call(
        "solve",
        write_task(tmp_path),
        "--model",
        f"recorded/{run}",
        "--runs",
        tmp_path / "again",
        "--json",
    )
    assert again.code == 0, again.err
    first, second = told.document, again.document
    assert (first["end"], first["turns"]) == (second["end"], second["turns"])
    for document in (first, second):
        document["verdict"].pop("wall_ms")
    assert first["verdict"] == second["verdict"]
    assert Path(second["kernel"]).read_text() == RIGHT
    assert second["usage"]["input_tokens"] == 0


def test_recording_asked_something_else_says_where(tmp_path: Path) -> None:
    solve(tmp_path)
    fixed = ("--model", f"recorded/{the_run(tmp_path)}", "--runs", tmp_path / "again")
    called = call("solve", write_task(tmp_path), *fixed, "--turns", 3)
    assert called.code == 4
    assert "turn 1 is not as it was recorded" in called.out


def test_read_only_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    called = call("solve", write_task(tmp_path), "--runs", tmp_path / "file" / "runs")
    assert called.code == 2
    assert "cannot write a run folder" in called.err


BENCH = ("--task", "l1-add-2d-bf16", "--task", "l1-relu-1d-bf16", "--workers", 1, "--episodes", 1)
SILENT = {"text": "no kernel", "usage": USAGE}


def test_run_of_the_benchmark_stops_and_goes_on_without_paying_twice(tmp_path: Path) -> None:
    model = write_script(tmp_path, SILENT, SILENT, SILENT)
    prices = write_prices(tmp_path)
    fixed = ("--model", model, "--runs", tmp_path / "runs", "--prices", prices, "--seed", 5, *BENCH)
    stopped = call("bench", "run", *fixed, "--budget-dollars", TURN_USD * 4)
    assert stopped.code == 1
    assert "stopped   the run has spent" in stopped.err
    run = the_run(tmp_path)
    attempts = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
    assert [a["cost"]["usd"] for a in attempts] == pytest.approx([TURN_USD * 3])
    still = call("bench", "run", "--resume", run, "--workers", 1)
    assert still.code == 1
    done = call("bench", "run", "--resume", run, "--budget-dollars", 1, "--workers", 1, "--json")
    assert done.code == 0, done.err
    attempts = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
    assert [a["cost"]["usd"] for a in attempts] == pytest.approx([TURN_USD * 3] * 2)
    files = list(run.glob("attempts/*/trajectory.jsonl"))
    assert [sum(isinstance(e, Turn) for e in read_trajectory(f)) for f in files] == [3, 3]
    (group,) = [g for g in done.document["groups"] if g["kind"] == "all"]
    assert group["scores"]["usd_per_task"] == pytest.approx(TURN_USD * 3)


def test_run_of_the_benchmark_is_recorded_and_said_again(tmp_path: Path) -> None:
    model = write_script(tmp_path, SILENT, SILENT, SILENT)
    fixed = ("--seed", 5, *BENCH)
    call("bench", "run", "--model", model, "--runs", tmp_path / "runs", *fixed)
    run = the_run(tmp_path)
    again = call("bench", "run", "--model", f"recorded/{run}", "--runs", tmp_path / "again", *BENCH)
    assert again.code == 0, again.err
    assert "no kernel" in again.err
    (other,) = (tmp_path / "again").iterdir()
    assert json.loads((other / "config.json").read_text())["seed"] == 5


def test_samples_go_on_and_no_reply_of_any_is_paid_twice(tmp_path: Path) -> None:
    model = write_script(tmp_path, *(SILENT,) * 9)
    given = (write_task(tmp_path), "--model", model, "--runs", tmp_path / "runs", "--samples", 3)
    prices = ("--prices", write_prices(tmp_path))
    stopped = call("solve", *given, *prices, "--budget-dollars", TURN_USD * 4, "--json")
    assert stopped.document["usd"] == pytest.approx(TURN_USD * 4)
    run = the_run(tmp_path)
    first = (run / "trajectory.jsonl").read_bytes()
    still = call("resume", run, "--json")
    assert still.document["usd"] == pytest.approx(TURN_USD * 4)
    done = call("resume", run, "--budget-dollars", 1, "--json")
    assert done.document["usd"] == pytest.approx(TURN_USD * 9)
    assert [s["end"] for s in done.document["samples"]] == ["no_kernel"] * 3
    assert (run / "trajectory.jsonl").read_bytes() == first
    again = call("resume", run)
    assert (again.code, "has ended: no kernel, no kernel, no kernel" in again.err) == (2, True)


def test_samples_are_recorded_and_said_again(tmp_path: Path) -> None:
    model = write_script(tmp_path, *(SILENT,) * 6)
    given = (write_task(tmp_path), "--runs", tmp_path / "runs", "--samples", 2, "--json")
    once = call("solve", *given, "--model", model, "--seed", 3)
    again = call("solve", *given, "--model", f"recorded/{the_run(tmp_path)}")
    assert again.document["samples"] == once.document["samples"]
    assert again.document["usd"] == 0


def test_prices_too_deep_to_read_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.toml"
    path.write_text("a = " + "[" * 100_000)
    called = solve(tmp_path, "--prices", path)
    assert (called.code, "no table of prices" in called.err) == (2, True)


@pytest.mark.parametrize("price", ["inf", "nan"])
def test_hour_without_a_price_is_refused(tmp_path: Path, price: str) -> None:
    called = solve(tmp_path, "--gpu-hour", price)
    assert (called.code, (tmp_path / "runs").exists()) == (2, False)


@pytest.mark.parametrize("option", ["--optimize", "--samples"])
def test_count_beyond_all_use_is_refused(tmp_path: Path, option: str) -> None:
    assert solve(tmp_path, option, 10**30).code == 2
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("last", [b"garbage\n", b'{"kind":"turn","turn":"x"}\n', b"[]\n", None])
def test_broken_trajectory_is_not_gone_on_with(tmp_path: Path, last: bytes | None) -> None:
    assert solve(tmp_path, "--budget-tokens", 1).code == 1
    run = the_run(tmp_path)
    path = run / "trajectory.jsonl"
    if last is None:
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(path.read_bytes() + last)
    called = call("resume", run)
    assert called.code == 2
    assert called.err.splitlines()[0] == call("replay", run).err.splitlines()[0]


def test_model_that_cannot_be_used_leaves_no_folder(tmp_path: Path) -> None:
    called = call(
        *("solve", write_task(tmp_path), "--model", f"recorded/{tmp_path}/nope"),
        *("--runs", tmp_path / "runs"),
    )
    assert (called.code, "cannot read the recording" in called.err) == (2, True)
    assert not (tmp_path / "runs").exists()


def test_run_without_tokens_of_its_task_goes_on_with_more(tmp_path: Path) -> None:
    stopped = solve(tmp_path, "--task-tokens", 1)
    run = the_run(tmp_path)
    assert (stopped.document["end"], count_turns(run)) == ("tokens", 1)
    done = call("resume", run, "--json", "--task-tokens", 100_000)
    assert (done.code, done.document["end"], count_turns(run)) == (0, "solved", 3), done.err


def test_error_that_stopped_a_run_is_forgotten_when_it_has_ended(tmp_path: Path) -> None:
    solve(tmp_path, "--budget-tokens", 0)
    run = the_run(tmp_path)
    (run / "error.txt").write_text("KeyboardInterrupt: \n")
    assert call("resume", run, "--budget-tokens", 10**6).code == 0
    assert "KeyboardInterrupt" not in call("replay", run).err
