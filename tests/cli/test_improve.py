"""`fix` and `optimize` start from the user's kernel and say what changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nki_agent.agent.trajectory import Turn, read_trajectory
from tests.agent.tiny import CHEAT, RIGHT, WRONG
from tests.cli.calling import Called, call, use, write_kernel, write_script, write_task

MISSPELT = RIGHT.replace("nisa.dma_copy(dst=tile", "nisa.dma_copyx(dst=tile")
SLOW = RIGHT.replace("range(0, 150, 128)", "range(0, 150, 16)").replace("min(128,", "min(16,")
WRONG_AND_FAST = RIGHT.replace("op0=nl.add", "op0=nl.subtract")


def improve(
    folder: Path, command: str, source: str, *lines: object, options: object = ()
) -> Called:
    assert isinstance(options, tuple)
    model = ("--model", write_script(folder, *lines)) if lines else ()
    return call(
        *(command, write_kernel(folder, source), "--task", write_task(folder)),
        *(*model, "--runs", folder / "runs", "--seed", 3, "--json", *options),
    )


def the_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


def first_words(run: Path) -> str:
    """What the model was told."""
    turn = next(e for e in read_trajectory(run / "trajectory.jsonl") if isinstance(e, Turn))
    return turn.sent[-1].content


def test_right_kernel_needs_no_fix_and_no_model(tmp_path: Path) -> None:
    called = improve(tmp_path, "fix", RIGHT, "never asked")
    assert (called.code, called.document["by"], called.document["turns"]) == (0, "nobody", 0)
    assert not (tmp_path / "runs").exists()


def test_mechanical_fault_is_fixed_without_a_model(tmp_path: Path) -> None:
    called = improve(tmp_path, "fix", MISSPELT, "never asked", options=("--write",))
    assert (called.code, called.document["by"]) == (0, "the findings' own edits"), called.err
    assert (tmp_path / "kernel.py").read_text() == RIGHT
    assert not (tmp_path / "runs").exists()


def test_fix_shows_the_model_kernel_and_verdict(tmp_path: Path) -> None:
    called = improve(tmp_path, "fix", WRONG, use("submit", source=RIGHT))
    assert called.code == 0, called.err
    document = called.document
    assert (document["before"]["stage"], document["after"]["stage"]) == ("wrong", "right")
    run = the_run(tmp_path)
    assert "-fix-kernel-" in run.name
    assert (run / "start.py").read_text() == WRONG
    assert (run / "kernel.py").read_text() == RIGHT
    assert (tmp_path / "kernel.py").read_text() == WRONG
    words = first_words(run)
    assert WRONG.strip() in words
    assert "stage: wrong" in words
    assert "NK501" in words
    assert call("report", run).code == 0
    assert "What changed of the user" in (run / "report.html").read_text()


def test_fix_writes_the_users_file_only_when_right(tmp_path: Path) -> None:
    lines = (use("submit", source=WRONG_AND_FAST),)
    called = improve(tmp_path, "fix", WRONG, *lines, options=("--write",))
    assert (called.code, (tmp_path / "kernel.py").read_text()) == (1, WRONG)
    assert improve(tmp_path, "fix", CHEAT, use("submit", source=CHEAT)).code == 3


def test_optimize_keeps_the_fastest_right_kernel(tmp_path: Path) -> None:
    lines = (
        use("verify_kernel", source=RIGHT),
        use("verify_kernel", source=WRONG_AND_FAST),
        use("submit", source=SLOW),
    )
    called = improve(tmp_path, "optimize", SLOW, *lines, options=("--write",))
    assert called.code == 0, called.err
    document = called.document
    assert document["speedup"] > 1.2
    assert document["before"]["latency_ns"] == pytest.approx(
        document["after"]["latency_ns"] * document["speedup"]
    )
    assert (tmp_path / "kernel.py").read_text() == RIGHT
    words = first_words(the_run(tmp_path))
    assert "Where its time goes" in words
    assert "limited by" in words


def test_optimize_that_finds_nothing_keeps_the_kernel(tmp_path: Path) -> None:
    lines = (use("verify_kernel", source=SLOW + "\n"), use("submit", source=WRONG))
    called = improve(tmp_path, "optimize", RIGHT, *lines, options=("--write",))
    assert (called.code, called.document["speedup"]) == (0, 1.0)
    assert (tmp_path / "kernel.py").read_text() == RIGHT


def test_optimize_by_the_built_in_author_compares_its_own_kernel(tmp_path: Path) -> None:
    called = improve(tmp_path, "optimize", SLOW)
    assert called.code == 0, called.err
    assert called.document["speedup"] >= 1.0
    assert "writes a kernel of its own" in called.err


def test_kernel_that_is_not_right_cannot_be_made_faster(tmp_path: Path) -> None:
    called = improve(tmp_path, "optimize", WRONG, "never asked")
    assert (called.code, "nki-agent fix" in called.err) == (2, True)


def test_change_is_shown_in_words(tmp_path: Path) -> None:
    model = write_script(tmp_path, use("submit", source=RIGHT))
    kernel, task = write_kernel(tmp_path, WRONG), write_task(tmp_path)
    called = call(*("fix", kernel, "--task", task, "--model", model, "--runs", tmp_path / "runs"))
    assert called.code == 0, called.err
    assert "before      wrong\nafter       right, " in called.out
    shown = [line.strip() for line in called.out.splitlines() if "operand0" in line]
    assert [line[0] for line in shown] == ["-", "+"]


def test_kernel_with_modules_beside_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tiles.py").write_text("SIZE = 128\n")
    called = improve(tmp_path, "fix", "import tiles\n" + WRONG, "never asked")
    assert (called.code, "tiles.py" in called.err) == (2, True)


def test_runs_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    called = improve(tmp_path, "fix", WRONG, use("submit", source=RIGHT))
    assert (called.code, "cannot write a run folder" in called.err) == (2, True)


def test_model_that_gives_up_leaves_its_reason(tmp_path: Path) -> None:
    called = improve(tmp_path, "fix", WRONG, {"text": "I can't.", "stop": "refusal"})
    assert (called.code, called.document["end"]) == (1, "gave_up")
    config = json.loads((the_run(tmp_path) / "config.json").read_text())
    assert (config["goal"], config["seed"]) == ("fix", 3)


# A right kernel of the user's stays one, whatever comes.
@pytest.mark.parametrize(("command", "source", "code"), [("fix", WRONG, 1), ("optimize", SLOW, 0)])
def test_budget_of_nothing_asks_nobody(
    command: str, source: str, code: int, tmp_path: Path
) -> None:
    options = ("--budget-tokens", 0)
    called = improve(tmp_path, command, source, use("submit", source=RIGHT), options=options)
    assert (called.document["end"], called.document["turns"]) == ("run_budget", 0), called.err
    assert called.code == code
    assert json.loads((the_run(tmp_path) / "config.json").read_text())["budget"]["tokens"] == 0


def test_prompt_tools_and_prices_are_those_of_the_run(tmp_path: Path) -> None:
    options = ("--prompt", "plain", "--tools", "compile", "--gpu-hour", 1.0)
    called = improve(tmp_path, "fix", WRONG, use("verify_kernel", source=RIGHT), options=options)
    run = the_run(tmp_path)
    config = json.loads((run / "config.json").read_text())
    assert config["ablation"] == {"prompt": "plain", "tools": ["compile_kernel"]}
    assert config["tariff"]["usd_per_hour"] == 1.0
    assert called.document["usd"] > 0
    assert "There is no tool `verify_kernel`" in (run / "trajectory.jsonl").read_text()


def test_kernel_for_the_surface_of_instructions_is_judged_by_it(tmp_path: Path) -> None:
    options = ("--surface", "isa")
    called = improve(tmp_path, "fix", RIGHT, use("submit", source=RIGHT), options=options)
    assert called.document["before"]["stage"] == "refused"
    assert "NK119" in first_words(the_run(tmp_path))


PAID = {"input_tokens": 1000, "output_tokens": 50}


@pytest.mark.parametrize(("command", "start"), [("fix", WRONG), ("optimize", SLOW)])
def test_stopped_run_goes_on_and_no_turn_is_paid_twice(
    command: str, start: str, tmp_path: Path
) -> None:
    lines = (
        {**use("verify_kernel", source=WRONG_AND_FAST), "usage": PAID},
        {**use("submit", source=RIGHT), "usage": PAID},
    )
    options = ("--budget-tokens", 1000, "--write")
    stopped = improve(tmp_path, command, start, *lines, options=options)
    assert stopped.document["end"] == "run_budget"
    run = the_run(tmp_path)
    first = (run / "trajectory.jsonl").read_bytes().splitlines()
    assert call("resume", run, "--json").document["end"] == "run_budget"
    done = call("resume", run, "--json", "--budget-tokens", 10_000)
    assert (done.code, done.document["end"]) == (0, "solved"), done.err
    assert (done.document["turns"], done.document["usage"]["input_tokens"]) == (2, 2000)
    assert done.document["before"]["stage"] == ("wrong" if command == "fix" else "right")
    assert the_run(tmp_path) == run
    assert (run / "trajectory.jsonl").read_bytes().splitlines()[: len(first) - 1] == first[:-1]
    assert (tmp_path / "kernel.py").read_text() == RIGHT
    again = call("resume", run)
    assert (again.code, "has ended: solved" in again.err) == (2, True)


def test_stopped_run_says_how_it_goes_on_and_keeps_a_file_that_was_changed(tmp_path: Path) -> None:
    model = write_script(tmp_path, {**use("submit", source=RIGHT), "usage": PAID})
    kernel, task = write_kernel(tmp_path, WRONG), write_task(tmp_path)
    given = ("--task", task, "--model", model, "--runs", tmp_path / "runs", "--write")
    stopped = call("fix", kernel, *given, "--budget-tokens", 0)
    run = the_run(tmp_path)
    assert f"go on       nki-agent resume {run}" in stopped.out
    kernel.write_text("# mine, meanwhile\n")
    done = call("resume", run, "--budget-tokens", 10_000)
    assert done.code == 0, done.err
    assert "not written" in done.err
    assert kernel.read_text() == "# mine, meanwhile\n"
    assert (run / "kernel.py").read_text() == RIGHT


def test_faster_kernel_that_was_only_submitted_counts(tmp_path: Path) -> None:
    called = improve(tmp_path, "optimize", SLOW, use("submit", source=RIGHT), options=("--write",))
    assert called.code == 0, called.err
    assert called.document["speedup"] > 1.2
    assert (tmp_path / "kernel.py").read_text() == RIGHT
