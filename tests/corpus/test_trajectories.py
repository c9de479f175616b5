"""Trajectories of a corpus: made once, resumable, the same on any number of processes."""

from pathlib import Path

import msgspec
import pytest

from nki_agent.base.errors import UsageError
from nki_agent.corpus.chat import Kind
from nki_agent.corpus.checking import Checked, check_solutions, sample_solutions
from nki_agent.corpus.record import Solution
from nki_agent.corpus.stored import read_solutions, read_tasks
from nki_agent.corpus.trajectories import Making, Progress
from tests.corpus.small import bench_row, solve, write_corpus
from tests.corpus.test_short import make_solution

TASKS = ("l1-rsqrt-2d", "l1-sum-rows-2d")
KINDS = (Kind.SINGLE_SHOT, Kind.REPAIR)


def make(folder: Path, *, workers: int = 1, kinds: tuple[Kind, ...] = KINDS) -> Progress:
    making = Making(
        folder=folder,
        tasks=read_tasks(folder).good,
        root_seed=0,
        workers=workers,
        kinds=kinds,
        repairs=1,
    )
    return making.carry_out(watch=lambda _: None, warn=lambda _: None)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two solved tasks with an answer and a repair each."""
    rows = [bench_row(task) for task in TASKS]
    folder = write_corpus(tmp_path_factory.mktemp("corpus"), rows)
    solve(folder)
    progress = make(folder)
    assert (progress.done, progress.failed) == (2, {})
    return folder


def copy(folder: Path, target: Path, *names: str) -> Path:
    for name in ("tasks.jsonl", *names):
        (target / name).write_bytes((folder / name).read_bytes())
    return target


def test_rows_are_the_same_on_any_number_of_processes(made: Path, tmp_path: Path) -> None:
    other = copy(made, tmp_path, "solutions.jsonl")
    make(other, workers=2)
    assert (other / "episodes.jsonl").read_bytes() == (made / "episodes.jsonl").read_bytes()


def test_what_is_in_the_log_is_not_made_again(made: Path) -> None:
    before = (made / "episodes.jsonl").read_bytes()
    assert make(made).rows == {"single-shot": 2, "repair": 2}
    assert (made / "episodes.jsonl").read_bytes() == before


def test_log_goes_on_after_a_torn_line(made: Path, tmp_path: Path) -> None:
    other = copy(made, tmp_path, "solutions.jsonl")
    whole = (made / "episodes.jsonl").read_bytes()
    (other / "episodes.jsonl").write_bytes(whole[:-50])
    make(other)
    assert (other / "episodes.jsonl").read_bytes() == whole


def test_log_of_another_corpus_is_refused(made: Path, tmp_path: Path) -> None:
    first = msgspec.json.decode((made / "tasks.jsonl").read_bytes().splitlines()[0])
    other = write_corpus(tmp_path, [bench_row(TASKS[1])])
    assert first["id"] == TASKS[0]
    (other / "episodes.jsonl").write_bytes((made / "episodes.jsonl").read_bytes())
    with pytest.raises(UsageError, match="another corpus"):
        make(other)


def check(folder: Path, solutions: list[Solution]) -> Checked:
    tasks = {task.id: task for task in read_tasks(folder).good}
    return check_solutions(solutions, tasks, root_seed=7, workers=1, watch=lambda _: None)


def test_stored_kernels_are_right_on_other_seeds_and_a_wrong_one_is_named(made: Path) -> None:
    solutions = list(read_solutions(made, read_tasks(made).good).good)
    wrong = make_solution(solutions[0].kernel.replace("nl.rsqrt", "nl.sqrt"))
    found = check(made, [*solutions, msgspec.structs.replace(wrong, kernel_sha256="f" * 64)])
    assert (found.done, found.right, found.failed) == (3, 2, {})
    ((name, why),) = found.wrong.items()
    assert name == "l1-rsqrt-2d/ffffffffffff"
    assert why.startswith("wrong on seed ")


def test_sample_is_as_large_as_asked_and_in_order() -> None:
    solutions = [make_solution(str(n)) for n in range(50)]
    found = sample_solutions(solutions, number=10, root_seed=1)
    assert len(found) == 10
    assert found == sorted(found, key=solutions.index)
    assert found != sample_solutions(solutions, number=10, root_seed=2)
    assert sample_solutions(solutions, number=99, root_seed=1) == solutions
