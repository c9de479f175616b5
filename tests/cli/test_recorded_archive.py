"""A recording is said again with the archive that it was made with, whatever has run since."""

from pathlib import Path

import pytest

from tests.agent.tiny import RIGHT
from tests.cli.calling import Called, call, use, write_script, write_task
from tests.cli.test_ablations import config_of, solve, the_run


def say_again(folder: Path, run: Path, *options: object) -> Called:
    fixed = ("--model", f"recorded/{run}", "--runs", folder / "runs", "--json")
    return call("solve", write_task(folder), *fixed, *options)


@pytest.mark.parametrize("earlier", [0, 1])
def test_recording_keeps_its_archive_when_other_runs_exist(tmp_path: Path, earlier: int) -> None:
    for _ in range(earlier):
        assert solve(tmp_path, use("submit", source=RIGHT)).code == 0
    # Kernels of another text, so that each run adds one to the archive.
    assert solve(tmp_path, use("submit", source=f"{RIGHT}# a\n")).code == 0
    run, config = the_run(tmp_path), config_of(tmp_path)
    assert (config["archive_hash"] is not None) == bool(earlier)
    assert solve(tmp_path, use("submit", source=f"{RIGHT}# b\n")).code == 0
    again = say_again(tmp_path, run)
    assert again.code == 0, again.err
    assert config_of(tmp_path)["archive_hash"] == config["archive_hash"]
    assert "is not as it was" not in again.err
    twice = say_again(tmp_path, the_run(tmp_path))
    assert twice.code == 0, twice.err


def test_recording_without_a_config_offers_the_tools_of_its_prompt(tmp_path: Path) -> None:
    assert solve(tmp_path, use("submit", source=RIGHT)).code == 0
    bare = tmp_path / "bare.jsonl"
    bare.write_bytes((the_run(tmp_path) / "trajectory.jsonl").read_bytes())
    again = say_again(tmp_path, bare, "--seed", 3)
    assert again.code == 0, again.err


def test_archive_that_is_named_counts_for_a_recording_too(tmp_path: Path) -> None:
    assert solve(tmp_path, use("submit", source=RIGHT)).code == 0
    again = say_again(tmp_path, the_run(tmp_path), "--archive", tmp_path / "runs")
    assert again.code == 4
    assert "find_kernels" in again.out


def test_model_that_is_asked_anew_reads_the_runs_beside_it(tmp_path: Path) -> None:
    assert solve(tmp_path, use("submit", source=RIGHT)).code == 0
    model = write_script(tmp_path, use("submit", source=RIGHT))
    assert (
        call("solve", write_task(tmp_path), "--model", model, "--runs", tmp_path / "runs").code == 0
    )
    assert config_of(tmp_path)["archive_hash"] is not None
