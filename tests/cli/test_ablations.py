"""`--prompt`, `--tools`, `--turns`, `--samples` and `--archive`, from the option to the records."""

import json
from pathlib import Path

import pytest

from nki_agent.agent.trajectory import Finished, Started, Turn, read_trajectory
from tests.agent.tiny import RIGHT, WRONG
from tests.cli.calling import Called, call, use, write_script, write_task

EASY = "l1-relu-1d-bf16"


def solve(folder: Path, *lines: object, options: tuple[object, ...] = ()) -> Called:
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
    return max((folder / "runs").iterdir(), key=lambda path: path.stat().st_mtime_ns)


def config_of(folder: Path) -> dict[str, object]:
    config: dict[str, object] = json.loads((the_run(folder) / "config.json").read_text())
    return config


def test_ablation_is_in_the_config_and_the_model_sees_it(tmp_path: Path) -> None:
    options = ("--prompt", "plain", "--tools", "verify,compile", "--turns", 4)
    called = solve(tmp_path, use("submit", source=RIGHT), options=options)
    assert called.code == 0, called.err
    config = config_of(tmp_path)
    assert config["ablation"] == {"prompt": "plain", "tools": ["compile_kernel", "verify_kernel"]}
    assert str(config["prompts"]).startswith("4 (")
    start, turn, *_ = read_trajectory(the_run(tmp_path) / "trajectory.jsonl")
    assert isinstance(start, Started)
    assert isinstance(turn, Turn)
    assert "You have 4 turns" in turn.sent[0].content
    assert "partition" not in turn.sent[0].content


def test_loop_without_tools_takes_the_first_kernel(tmp_path: Path) -> None:
    called = solve(
        tmp_path, "first I think", f"```python\n{RIGHT}```\n", options=("--tools", "none", "--json")
    )
    assert called.code == 0, called.err
    assert called.document["turns"] == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--tools", "compiler"), "did you mean `compile`"),
        (("--mode", "single-shot", "--tools", "verify"), "a single shot has no tools"),
        (("--prompt", "fancy"), "fancy"),
        (("--archive", "/no/such/folder"), "cannot read the archive"),
    ],
)
def test_what_cannot_be_is_refused_before_a_run(
    tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    called = solve(tmp_path, use("submit", source=RIGHT), options=options)
    assert called.code == 2
    assert words in called.err
    assert not (tmp_path / "runs").exists()


def test_best_of_several_samples_is_kept_with_every_trajectory(tmp_path: Path) -> None:
    lines = (
        use("submit", source=WRONG),
        use("submit", source=RIGHT),
        use("submit", source=WRONG),
    )
    called = solve(tmp_path, *lines, options=("--samples", 3, "--json"))
    assert called.code == 0, called.err
    run = the_run(tmp_path)
    assert (run / "kernel.py").read_text() == RIGHT
    assert [sample["stage"] for sample in called.document["samples"]] == ["wrong", "right", "wrong"]
    assert called.document["turns"] == 3
    names = ("trajectory.jsonl", "trajectory-2.jsonl", "trajectory-3.jsonl")
    assert all(isinstance(read_trajectory(run / name)[-1], Finished) for name in names)
    assert json.loads((run / "verdict.json").read_text())["stage"] == "right"
    told = solve(tmp_path, *lines, options=("--samples", 3)).out
    assert told.startswith("samples     wrong, right, wrong; the best is number 2\n")


def test_right_kernels_of_earlier_runs_are_found(tmp_path: Path) -> None:
    assert solve(tmp_path, use("submit", source=RIGHT)).code == 0
    find = use("find_kernels", query="tensor")
    called = solve(tmp_path, find, use("submit", source=RIGHT))
    assert called.code == 0, called.err
    first = read_trajectory(the_run(tmp_path) / "trajectory.jsonl")
    told = [event.sent for event in first if isinstance(event, Turn)]
    assert "`find_kernels`" in told[0][0].content
    assert "add-one" in told[1][0].content


def test_evaluation_records_its_ablation_and_refuses_to_mix(tmp_path: Path) -> None:
    options = ("--task", EASY, "--runs", tmp_path, "--seed", 1, "--workers", 1)
    called = call("bench", "run", *options, "--prompt", "plain", "--tools", "none", "--json")
    assert called.code == 0, called.err
    folder = Path(called.document["run"])
    line = json.loads((folder / "attempts.jsonl").read_text().splitlines()[0])
    assert len(line["prompt_hash"]) == 12
    text = call("bench", "report", folder).out
    assert "builtin (loop, plain prompt, tools none)" in text
    assert "words of the prompts: version 4 (" in text
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"prompts": "1 (000000000000)"}))
    again = call("bench", "run", "--resume", folder)
    assert again.code == 2
    assert "was begun with other prompts" in again.err


def test_evaluation_never_shows_a_kernel_that_answers_the_task(tmp_path: Path) -> None:
    assert solve(tmp_path, use("submit", source=RIGHT)).code == 0
    options = ("--task", EASY, "--runs", tmp_path / "evals", "--seed", 1, "--workers", 1)
    script = write_script(tmp_path, use("find_kernels", query="tensor"), "done", "done", "done")
    called = call(
        "bench", "run", *options, "--model", script, "--archive", tmp_path / "runs", "--json"
    )
    assert called.code == 0, called.err
    folder = Path(called.document["run"])
    (trajectory,) = folder.glob("attempts/*/trajectory.jsonl")
    assert "add-one" in trajectory.read_text()
    resumed = call("bench", "run", "--resume", folder)
    assert "was begun with another archive" in resumed.err
