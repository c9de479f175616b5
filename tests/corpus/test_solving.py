"""Solutions: verified, in order, resumable; what is of another corpus is refused."""

from pathlib import Path

import msgspec
import pytest

from nki_agent.base.errors import UsageError
from nki_agent.corpus.record import Solution, Unsolved
from nki_agent.corpus.stored import read_rows, read_solutions, read_tasks
from tests.corpus.small import REFUSED, bench_row, make_row, solve, write_corpus

SOLVABLE = ("l1-rsqrt-2d", "l1-sum-rows-2d")


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks with solutions and one without, in one process."""
    rows = [bench_row(SOLVABLE[0]), make_row("inverse", REFUSED), bench_row(SOLVABLE[1])]
    folder = write_corpus(tmp_path_factory.mktemp("corpus"), rows)
    solve(folder)
    return folder


def test_solution_is_right_and_says_of_what(solved: Path) -> None:
    solutions = read_rows(solved / "solutions.jsonl", Solution, schema=1).good
    assert [s.task for s in solutions] == list(SOLVABLE)
    for solution in solutions:
        assert solution.dialect == "nki"
        assert solution.target == "trn2"
        assert solution.latency_ns > 0
        assert solution.perf_latency_ns is not None
        assert solution.perf_latency_ns > solution.latency_ns


def test_unsolved_task_names_node_and_reason(solved: Path) -> None:
    (row,) = read_rows(solved / "unsolved.jsonl", Unsolved, schema=1).good
    assert row.task == "inverse"
    assert row.node.startswith("aten.")
    assert row.reason == "there is no rule for it"


def test_rows_are_the_same_on_any_number_of_processes(solved: Path, tmp_path: Path) -> None:
    other = write_corpus(tmp_path, read_tasks(solved).good)
    solve(other, workers=2)
    for name in ("solutions.jsonl", "unsolved.jsonl"):
        assert (other / name).read_bytes() == (solved / name).read_bytes()


def test_solved_tasks_are_not_solved_again(solved: Path) -> None:
    before = (solved / "solutions.jsonl").read_bytes()
    progress = solve(solved)
    assert (progress.done, progress.solved) == (3, 2)
    assert sum(progress.reasons.values()) == 1
    assert (solved / "solutions.jsonl").read_bytes() == before


def test_run_goes_on_after_a_torn_line(solved: Path, tmp_path: Path) -> None:
    folder = write_corpus(tmp_path, read_tasks(solved).good)
    whole = (solved / "solutions.jsonl").read_bytes()
    (folder / "solutions.jsonl").write_bytes(whole[:-100])
    assert solve(folder).solved == 2
    assert (folder / "solutions.jsonl").read_bytes() == whole


def test_solutions_of_another_corpus_are_refused(solved: Path, tmp_path: Path) -> None:
    row = read_tasks(solved).good[0]
    text = row.source.replace("1.0", "2.0") + "\n# other\n"
    folder = write_corpus(tmp_path, [make_row(row.id, text)])
    foreign = (solved / "solutions.jsonl").read_bytes()
    (folder / "solutions.jsonl").write_bytes(foreign)
    with pytest.raises(UsageError, match="is of another corpus"):
        solve(folder)
    assert (folder / "solutions.jsonl").read_bytes() == foreign


def test_broken_row_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    good = bench_row(SOLVABLE[0])
    changed = msgspec.structs.replace(bench_row(SOLVABLE[1]), sha256="0" * 64)
    folder = write_corpus(tmp_path, [good, changed, good])
    with (folder / "tasks.jsonl").open("ab") as file:
        file.write(b'{"schema": 1, "id": 3}\n')
    rows = read_tasks(folder)
    assert rows.good == (good,)
    no_row, no_hash, twice = rows.broken
    assert "tasks.jsonl:4" in no_row
    assert SOLVABLE[1] in no_hash
    assert "is there twice" in twice


def test_broken_solution_stops_before_anything_is_written(solved: Path, tmp_path: Path) -> None:
    folder = write_corpus(tmp_path, read_tasks(solved).good)
    broken = b'{"schema":1,"task":7}\n' + (solved / "solutions.jsonl").read_bytes()
    (folder / "solutions.jsonl").write_bytes(broken)
    with pytest.raises(UsageError, match="line 1"):
        solve(folder)
    assert (folder / "solutions.jsonl").read_bytes() == broken


def test_broken_row_of_a_task_stops_no_other_task(solved: Path, tmp_path: Path) -> None:
    tasks = read_tasks(solved).good
    folder = write_corpus(tmp_path, tasks)
    (folder / "solutions.jsonl").write_bytes((solved / "solutions.jsonl").read_bytes())
    _, *others = (folder / "tasks.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "tasks.jsonl").write_bytes(b'{"broken": \n' + b"".join(others))
    progress = solve(folder)
    assert progress.total == len(tasks) - 1
    assert progress.done == progress.total
    read = read_solutions(folder, read_tasks(folder).good)
    assert tasks[0].id not in {solution.task for solution in read.good}


def test_last_task_that_is_cut_off_is_named(solved: Path, tmp_path: Path) -> None:
    folder = write_corpus(tmp_path, read_tasks(solved).good)
    whole = (folder / "tasks.jsonl").read_bytes()
    (folder / "tasks.jsonl").write_bytes(whole[:-200])
    (broken,) = read_tasks(folder).broken
    assert "the line is cut off" in broken
