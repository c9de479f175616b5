"""`solve` from a task file to a run folder, with scripted models and the built-in author."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nki_agent.agent.trajectory import Finished, Started, Turn, read_trajectory
from tests.agent.tiny import CHEAT, REFUSED, RIGHT, WRONG
from tests.cli.calling import Called, call, use, write_script, write_task


def solve(folder: Path, *lines: object, options: tuple[object, ...] = ()) -> Called:
    """Solve the tiny task with a model that says these lines."""
    return call(
        "solve",
        write_task(folder),
        "--model",
        write_script(folder, *lines),
        "--runs",
        folder / "runs",
        "--seed",
        3,
        *options,
    )


def the_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


def test_solved_task_leaves_everything_in_its_folder(tmp_path: Path) -> None:
    called = solve(tmp_path, use("verify_kernel", source=WRONG), use("submit", source=RIGHT))
    assert called.code == 0, called.err
    run = the_run(tmp_path)
    assert (run / "kernel.py").read_text() == RIGHT
    assert (run / "task.py").read_text() == write_task(tmp_path).read_text()
    assert json.loads((run / "verdict.json").read_text())["stage"] == "right"
    assert json.loads((run / "timeline.json").read_text())["traceEvents"]
    config = json.loads((run / "config.json").read_text())
    assert (config["seed"], config["limits"]["turns"], config["target"]) == (3, 10, "trn2")
    events = read_trajectory(run / "trajectory.jsonl")
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Finished)
    assert sum(isinstance(event, Turn) for event in events) == 2


def test_solve_prints_result_on_stdout_and_talk_on_stderr(tmp_path: Path) -> None:
    called = solve(tmp_path, use("submit", source=RIGHT))
    assert called.out.startswith(
        f"kernel      {the_run(tmp_path) / 'kernel.py'}\nverdict     right\n"
    )
    for words in ("trial", "rel L2", "latency ", "bound ", "timeline ", "next ", "big", "tiny"):
        assert words in called.out
    assert "turn 1/10" in called.err
    assert "solved: The kernel is right." in called.err


def test_json_is_one_document(tmp_path: Path) -> None:
    called = solve(tmp_path, use("submit", source=RIGHT), options=("--json",))
    report = called.document
    assert (report["end"], report["turns"], report["verdict"]["stage"]) == ("solved", 1, "right")
    assert Path(report["kernel"]).read_text() == RIGHT


@pytest.mark.parametrize(
    ("lines", "code", "end"),
    [
        ((use("submit", source=WRONG),), 1, "submitted_wrong"),
        ((use("submit", source=REFUSED),), 1, "submitted_wrong"),
        ((use("submit", source=CHEAT),), 3, "submitted_wrong"),
        (("no", "kernel", "here"), 1, "no_kernel"),
        (({"text": "I can't.", "stop": "refusal"},), 1, "gave_up"),
        (("only one line",), 4, "model_error"),
    ],
)
def test_every_end_has_its_exit_code(
    tmp_path: Path, lines: tuple[object, ...], code: int, end: str
) -> None:
    called = solve(tmp_path, *lines, options=("--json",))
    assert (called.code, called.document["end"]) == (code, end)
    last = read_trajectory(the_run(tmp_path) / "trajectory.jsonl")[-1]
    assert isinstance(last, Finished)
    assert last.end == end


def test_end_is_said_in_words(tmp_path: Path) -> None:
    called = solve(tmp_path, {"text": "I can't.", "stop": "refusal"})
    assert "end         gave up: I can't." in called.out
    assert "gave up: I can't." in called.err


def test_single_shot_asks_once(tmp_path: Path) -> None:
    text = f"```python\n{RIGHT}```"
    called = solve(tmp_path, text, options=("--mode", "single-shot", "--json"))
    assert (called.code, called.document["turns"]) == (0, 1)


def test_search_is_refused_where_the_model_decides(tmp_path: Path) -> None:
    called = solve(tmp_path, use("submit", source=RIGHT), options=("--optimize", "3"))
    assert called.code == 2
    assert "`--optimize` is for the built-in author" in called.err


def test_second_run_gets_its_own_folder(tmp_path: Path) -> None:
    for _ in range(2):
        assert solve(tmp_path, use("submit", source=WRONG)).code == 1
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert names[1] == f"{names[0]}-2"


def test_same_config_gives_the_same_results(tmp_path: Path) -> None:
    for _ in range(2):
        solve(tmp_path, use("submit", source=RIGHT))
    verdicts = [
        json.loads((run / "verdict.json").read_text()) for run in (tmp_path / "runs").iterdir()
    ]
    for verdict in verdicts:
        del verdict["wall_ms"]
    assert verdicts[0] == verdicts[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--model", "anthropic/m"), "the environment has no ANTHROPIC_API_KEY"),
        (("--model", "built-in"), "did you mean `builtin`?"),
        (("--target", "trn22"), "did you mean `trn2`?"),
        (("--target", "tpu"), "There are trn1, inf2, trn2, trn3"),
        (("--dialect", "neuronxcc.nki"), "arrives in a later version"),
        (("--dialect", "cuda"), "no dialect `cuda`"),
        (("--runs", "/proc/none"), "cannot write a run folder"),
    ],
)
def test_wrong_option_is_usage_and_leaves_no_run(
    tmp_path: Path, options: tuple[str, str], words: str
) -> None:
    called = solve(tmp_path, options=options)
    assert called.code == 2
    assert words in called.err
    assert not (tmp_path / "runs").exists()


def test_task_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    write_task(tmp_path)
    called = call("solve", tmp_path / "add_on.py", "--runs", tmp_path / "runs")
    assert called.code == 2
    assert f"did you mean `{tmp_path / 'add_one.py'}`?" in called.err
    assert call("solve", tmp_path, "--runs", tmp_path / "runs").code == 2


RAISES = """import numpy as np
def f(x):
    raise ValueError('not today')
def inputs():
    return [np.zeros((4, 4), np.float32)]
"""
COMPLEX = """import numpy as np
def f(x):
    return x
def inputs():
    return [np.zeros((4, 4), np.complex64)]
"""


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x = 1\n", "has no model and no function"),
        ("def f(:\n", "not Python"),
        ("def f(x):\n    return x\n", "has no `get_inputs()`"),
        (RAISES, "not today"),
        (COMPLEX, "complex64"),
    ],
)
def test_task_that_cannot_be_used_is_one_message_and_a_kept_run(
    tmp_path: Path, source: str, words: str
) -> None:
    path = tmp_path / "task.py"
    path.write_text(source)
    called = call("solve", path, "--runs", tmp_path / "runs")
    run = the_run(tmp_path)
    assert called.code == 2
    assert words in called.err
    assert called.err.endswith(f"kept: {run}\n")
    assert words in (run / "error.txt").read_text()
    assert (run / "task.py").read_text() == source


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "task.py"
    path.write_bytes(b"\xff\xfe\x00")
    called = call("solve", path, "--runs", tmp_path / "runs")
    assert (called.code, "is not text in UTF-8" in called.err) == (2, True)


def test_interrupt_keeps_the_run_and_says_so(tmp_path: Path) -> None:
    """A real Ctrl-C while the model is asked: a script read from a pipe never ends."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # What runs the tests in the background may ignore Ctrl-C, and its children inherit that.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heed}; from nki_agent.cli.main import main; main()"
    command = [sys.executable, "-c", code, "solve", str(write_task(tmp_path))]
    process = subprocess.Popen(
        [*command, "--model", f"scripted/{pipe}", "--runs", str(tmp_path / "runs")],
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30  # noqa: TID251 - a real process has real time
    while not list(tmp_path.glob("runs/*/task.py")):
        assert process.poll() is None
        assert time.monotonic() < deadline  # noqa: TID251 - as above
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert f"kept: {the_run(tmp_path)}" in err
    assert "Traceback" not in err


def test_builtin_author_solves_the_tiny_task(tmp_path: Path) -> None:
    called = call("solve", write_task(tmp_path), "--runs", tmp_path / "runs", "--json")
    assert called.code == 0, called.err
    assert called.document["verdict"]["stage"] == "right"


def test_operator_that_the_builtin_author_does_not_know_is_named(tmp_path: Path) -> None:
    path = tmp_path / "task.py"
    path.write_text(
        "import numpy as np\n\n\ndef reference(x):\n    return np.linalg.inv(x)\n\n\n"
        "def inputs(rng):\n    return [rng.standard_normal((8, 8)).astype(np.float32)]\n"
    )
    called = call("solve", path, "--runs", tmp_path / "runs")
    assert called.code == 1
    assert "inv" in called.out + called.err
    assert (the_run(tmp_path) / "trajectory.jsonl").exists()


def test_missing_torch_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    path = tmp_path / "task.py"
    path.write_text("import torch\n")
    called = call("solve", path, "--runs", tmp_path / "runs")
    assert called.code == 2
    assert "pip install '.[torch]'" in called.err
