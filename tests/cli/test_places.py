"""Places to write to that the user names: a bad one is a usage error in every command.

Law: 2 where the place does not take it, 4 where the disk is full; nothing new is left behind.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.calling import call, write_kernel, write_task
from tests.evals.made import write_usual_run
from tests.judging import SOFTMAX_TASK
from tests.kernels import SOFTMAX

SMALL_SUITE = "class Model(:\n"
Make = Callable[[Path], tuple[object, ...]]


def _verify(folder: Path) -> tuple[object, ...]:
    (folder / "task.py").write_text(SOFTMAX_TASK)
    return ("verify", write_kernel(folder, SOFTMAX), "--task", folder / "task.py", "--results")


def _profile(folder: Path) -> tuple[object, ...]:
    (folder / "task.py").write_text(SOFTMAX_TASK)
    return ("profile", write_kernel(folder, SOFTMAX), "--task", folder / "task.py", "--trace")


def _solve(folder: Path) -> tuple[object, ...]:
    return ("solve", write_task(folder), "--runs")


def _run(folder: Path) -> tuple[object, ...]:
    del folder
    return ("bench", "run", "--task", "l1-relu-1d-bf16", "--workers", 1, "--runs")


def _report(folder: Path) -> tuple[object, ...]:
    return ("bench", "report", write_usual_run(folder / "run"), "--html")


def _compare(folder: Path) -> tuple[object, ...]:
    runs = [write_usual_run(folder / name) for name in ("a", "b")]
    return ("bench", "compare", *runs, "--html")


def _baseline(folder: Path) -> tuple[object, ...]:
    return ("bench", "baseline", write_usual_run(folder / "run"), "--out")


def _import(folder: Path) -> tuple[object, ...]:
    suite = folder / "suite" / "level1"
    suite.mkdir(parents=True)
    (suite / "1_a.py").write_text(SMALL_SUITE)
    return ("bench", "import", "kernelbench", suite.parent, "--out")


def _hide(folder: Path) -> tuple[object, ...]:
    del folder
    return ("bench", "hide", "--seed", 1, "--out")


FILES: dict[str, Make] = {
    "verify --results": _verify,
    "profile --trace": _profile,
    "bench report --html": _report,
    "bench compare --html": _compare,
    "bench baseline --out": _baseline,
}
FOLDERS: dict[str, Make] = {
    "solve --runs": _solve,
    "bench run --runs": _run,
    "bench import --out": _import,
    "bench hide --out": _hide,
}


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def check_refused(folder: Path, make: Make, place: Path) -> None:
    command = make(folder)
    before = listing(folder)
    called = call(*command, place)
    assert called.code == 2, called.err
    assert "error: " in called.err
    assert "internal error" not in called.err
    assert called.out == ""
    assert listing(folder) == before


@pytest.mark.parametrize("name", [*FILES, *FOLDERS])
def test_place_below_a_file_is_a_usage_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("mine")
    check_refused(tmp_path, {**FILES, **FOLDERS}[name], tmp_path / "file" / "place")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("name", [*FILES, *FOLDERS])
def test_place_that_linux_does_not_make_is_a_usage_error(tmp_path: Path, name: str) -> None:
    check_refused(tmp_path, {**FILES, **FOLDERS}[name], Path("/proc/nki-agent/place"))


@pytest.mark.parametrize("name", FILES)
def test_folder_in_the_place_of_a_file_is_a_usage_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "place").mkdir()
    check_refused(tmp_path, FILES[name], tmp_path / "place")


@pytest.mark.parametrize("name", FILES)
def test_file_in_a_folder_that_is_not_there_is_a_usage_error(tmp_path: Path, name: str) -> None:
    check_refused(tmp_path, FILES[name], tmp_path / "none" / "place")


@pytest.mark.parametrize("name", FOLDERS)
def test_file_in_the_place_of_a_folder_is_a_usage_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "place").write_text("mine")
    check_refused(tmp_path, FOLDERS[name], tmp_path / "place")


@pytest.mark.parametrize("name", [n for n in FILES if n != "verify --results"])
def test_full_disk_is_the_machines_failure(tmp_path: Path, name: str) -> None:
    called = call(*FILES[name](tmp_path), "/dev/full")
    assert called.code == 4, called.err
    assert "No space left on device" in called.err


def test_import_that_finds_nothing_leaves_no_folder(tmp_path: Path) -> None:
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "x.json").write_text("{}")
    for form in ("flashinfer", "nki-agent", "backendbench", "kernelbench", "accelopt", "auto"):
        called = call("bench", "import", form, tmp_path / "suite", "--out", tmp_path / "a" / "out")
        assert called.code == 2, called.err
        assert not (tmp_path / "a").exists()
