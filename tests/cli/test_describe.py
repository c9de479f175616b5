"""`solve --describe`: the model states the task, a person accepts it, then it is solved."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_agent.agent.trajectory import Turn, read_trajectory
from tests.agent.tiny import RIGHT, TASK
from tests.cli.calling import Called, call, use, write_script, write_task

WORDS = "Add one to a float32 tensor of shape [2, 75, 16]."
NOISY = TASK.replace("return x + 1.0", "return x + np.random.rand()")
CONSTANT = TASK.replace("return x + 1.0", "return x * 0.0")
HOSTILE = "open('/tmp/nki-agent-described', 'w')\n" + TASK


def block(source: str) -> str:
    return f"Here it is.\n\n```python\n{source}```\n"


def describe(folder: Path, *lines: object, options: tuple[str, ...] = ("--yes",)) -> Called:
    return call(
        *("solve", "--describe", WORDS, "--model", write_script(folder, *lines)),
        *("--runs", folder / "runs", *options),
    )


def the_runs(folder: Path) -> dict[str, Path]:
    return {path.name.split("-")[3]: path for path in (folder / "runs").iterdir()}


def test_accepted_task_is_solved(tmp_path: Path) -> None:
    called = describe(tmp_path, block(TASK), use("submit", source=RIGHT))
    assert called.code == 0, called.err
    runs = the_runs(tmp_path)
    assert set(runs) == {"describe", "solve"}
    assert (runs["solve"] / "task.py").read_text() == TASK
    for words in ("def add_one(x):", "input       x [2, 75, 16] float32", "lint        nothing"):
        assert words in called.err
    assert call("replay", runs["describe"]).code == 0


def test_unfit_drafts_are_told_and_repaired(tmp_path: Path) -> None:
    faulty = ("No code at all.", block(CONSTANT), block(HOSTILE))
    called = describe(tmp_path, *faulty, block(TASK), use("submit", source=RIGHT))
    assert called.code == 0, called.err
    told = call("replay", the_runs(tmp_path)["describe"]).out
    for words in ("no fenced Python block", "The task cannot be used yet", "PermissionError"):
        assert words in told
    assert not Path("/tmp/nki-agent-described").exists()


def test_words_of_which_no_fit_task_comes_are_not_solved(tmp_path: Path) -> None:
    called = describe(tmp_path, *[block(NOISY)] * 4)
    assert (called.code, "no fit task came of the words" in called.err) == (2, True)
    assert set(the_runs(tmp_path)) == {"describe"}


def test_model_that_refuses_to_state_a_task_is_heard(tmp_path: Path) -> None:
    called = describe(tmp_path, {"text": "I won't.", "stop": "refusal"})
    assert (called.code, "I won't." in called.err) == (2, True)


def test_task_that_nobody_accepts_is_shown_and_not_solved(tmp_path: Path) -> None:
    called = describe(tmp_path, block(TASK), use("submit", source=RIGHT), options=())
    assert (called.code, "nobody is there to accept" in called.err) == (2, True)
    assert "def add_one(x):" in called.err
    run = the_runs(tmp_path)["describe"]
    assert (run / "add_one_to_a_float32.py").read_text() == TASK


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "no task"),
        (("--describe", WORDS), "reads no words"),
        (("--describe", "  ", "--model", "scripted/x"), "no words"),
        (("TASK", "--describe", WORDS, "--model", "scripted/x"), "are given"),
    ],
)
def test_what_cannot_be_described_is_named(
    tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    task = str(write_task(tmp_path))
    called = call("solve", *(task if option == "TASK" else option for option in options))
    assert (called.code, words in called.err) == (2, True), called.err


def test_words_cost_of_the_same_budget(tmp_path: Path) -> None:
    called = describe(tmp_path, block(TASK), options=("--yes", "--budget-tokens", "0"))
    assert (called.code, "its budget is 0" in called.err) == (1, True), called.err
    assert "Traceback" not in called.err


@pytest.mark.parametrize(
    ("option", "tokens", "code", "words", "turns"),
    [
        ("--task-tokens", 1000, 2, "the limit of an episode in tokens or dollars is reached", 1),
        ("--budget-tokens", 1000, 1, "its budget is 1000", 1),
        ("--task-tokens", 0, 2, "the limit of an episode in tokens or dollars is reached", 0),
    ],
)
def test_limits_hold_for_words_too(
    option: str, tokens: int, code: int, words: str, turns: int, tmp_path: Path
) -> None:
    lines = [{"text": "No code.", "usage": {"input_tokens": 1000}}] * 4
    called = describe(tmp_path, *lines, options=("--yes", option, str(tokens)))
    assert (called.code, words in called.err) == (code, True), called.err
    events = read_trajectory(the_runs(tmp_path)["describe"] / "trajectory.jsonl")
    assert sum(isinstance(event, Turn) for event in events) == turns
