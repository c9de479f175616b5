"""`data solve` and `data trajectories` on a disk that fills up.

Law: exit code 4 and the system's words; what is on the disk is whole, and the same command goes on.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nki_agent.base.linefile import read_records
from nki_agent.corpus.chat import SCHEMA as MADE_SCHEMA
from nki_agent.corpus.making import Made
from nki_agent.corpus.publishing import FOLDER
from nki_agent.corpus.record import SCHEMA, Solution
from nki_agent.corpus.stored import SOLUTIONS
from nki_agent.corpus.trajectories import LOG
from tests.cli.calling import call
from tests.cli.test_full_disk import Ended, run_on_disk
from tests.corpus.small import bench_row, make_row, write_corpus

TASKS = ("l1-rsqrt-2d", "l1-relu-1d-bf16", "l1-rsqrt-2d", "l1-relu-1d-bf16")
"""Solutions of more than a page."""
PAGE = 4
"""Kilobytes that a file on such a disk takes at least."""
pytestmark = pytest.mark.slow
MAKE = ("--workers", 1, "--kinds", "short")


def pages_of(folder: Path) -> int:
    """Kilobytes that a folder's files take there."""
    sizes = (path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return sum(-(-size // (PAGE << 10)) * PAGE for size in sizes)


def require_told(ended: Ended) -> None:
    assert ended.code == 4, ended.err
    assert "No space left on device" in ended.err
    assert "Traceback" not in ended.err


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [make_row(f"c-{n}", bench_row(task).source) for n, task in enumerate(TASKS)]
    return write_corpus(tmp_path_factory.mktemp("tasks"), rows)


@pytest.fixture(scope="module")
def solved(tasks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("solved")
    shutil.copytree(tasks, folder, dirs_exist_ok=True)
    called = call("data", "solve", folder, "--workers", 1)
    assert called.code == 0, called.err
    return folder


@pytest.fixture(scope="module")
def made(solved: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    shutil.copytree(solved, folder, dirs_exist_ok=True)
    called = call("data", "trajectories", folder, *MAKE)
    assert called.code == 0, called.err
    return folder


@pytest.mark.parametrize("left", [0, PAGE])
def test_solve_on_a_full_disk_keeps_whole_solutions_and_goes_on(
    tasks: Path, tmp_path: Path, left: int
) -> None:
    size = pages_of(tasks) + left
    disk = tmp_path / "disk"
    ended = run_on_disk(tmp_path, size, "data", "solve", disk, "--workers", 1, held=tasks)
    require_told(ended)
    kept = list(read_records(ended.kept / SOLUTIONS, Solution, schema=SCHEMA))
    assert (0 < len(kept) < len(TASKS)) == (left > 0)
    (tmp_path / "kept" / "tasks.jsonl").write_bytes((tasks / "tasks.jsonl").read_bytes())
    called = call("data", "solve", ended.kept, "--workers", 1)
    assert called.code == 0, called.err
    assert f"solved    {len(TASKS)} of {len(TASKS)} tasks" in called.out


def test_trajectories_on_a_full_disk_keep_whole_records(solved: Path, tmp_path: Path) -> None:
    size = pages_of(solved) + PAGE
    disk = tmp_path / "disk"
    ended = run_on_disk(tmp_path, size, "data", "trajectories", disk, *MAKE, held=solved)
    require_told(ended)
    assert list(read_records(ended.kept / LOG, Made, schema=MADE_SCHEMA)) == []
    assert not ended.files(f"{FOLDER}/*")


def test_rows_that_no_longer_fit_leave_those_that_were_published(
    made: Path, tmp_path: Path
) -> None:
    """The log is whole, so that nothing is made again; only the choice is written anew."""
    size = pages_of(made)
    disk = tmp_path / "disk"
    arguments = ("data", "trajectories", disk, *MAKE, "--max-tokens", 9000)
    ended = run_on_disk(tmp_path, size, *arguments, held=made)
    require_told(ended)
    for path in (made / FOLDER).iterdir():
        kept = ended.kept / FOLDER / path.name
        assert (kept.read_bytes() if kept.exists() else b"") == path.read_bytes()
    assert not ended.files("*.new")
