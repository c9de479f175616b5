"""A stream of jobs: written once, resumed, remembered, and bounded."""

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Timer

import pytest

from nki_agent.base.errors import UsageError
from nki_agent.base.jsonl import read_lines
from nki_agent.chip.spec import Target
from nki_agent.farm.cache import VerdictCache
from nki_agent.farm.job import End, Job, Judged, Lost, Unusable
from nki_agent.farm.key import KeyMaker
from nki_agent.farm.local import LocalExecutor
from nki_agent.farm.log import ResultLog
from nki_agent.farm.run import run_many
from nki_agent.task.task import Scope
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage
from tests.agent.tiny import RIGHT, WRONG
from tests.farm.pool import make_job, stage_of, write_task
from tests.farm.test_log import make_verdict


class Counting:
    """An executor that answers at once and remembers what it was asked."""

    capacity = 3

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.open: list[Future[End]] = []
        self.answers = True
        self.end: End = Judged(make_verdict())

    def submit(self, job: Job) -> Future[End]:
        self.asked.append(job.id)
        future: Future[End] = Future()
        self.open.append(future)
        if self.answers:
            future.set_result(self.end)
        return future

    def close(self) -> None:
        """Nothing to end."""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return write_task(tmp_path)


def make_jobs(task: Path, num: int) -> list[Job]:
    return [make_job(task, name=str(n), seed=n) for n in range(num)]


def test_every_job_comes_back_once(executor: LocalExecutor, task: Path) -> None:
    jobs = make_jobs(task, 9)
    found = list(run_many(jobs, executor))
    assert sorted(job.id for job, _ in found) == sorted(job.id for job in jobs)
    assert {stage_of(end) for _, end in found} == {Stage.RIGHT}


def test_run_resumes_where_it_was_left(task: Path, tmp_path: Path) -> None:
    path, first, second = tmp_path / "results.jsonl", Counting(), Counting()
    with ResultLog(path) as log:
        run = run_many(make_jobs(task, 8), first, log=log)
        seen = [next(run)[0].id for _ in range(4)]
        run.close()
    with ResultLog(path) as log:
        again = list(run_many(make_jobs(task, 8), second, log=log))
    assert len(again) == 8
    assert not set(seen) & set(second.asked)
    assert sorted(line["id"] for line in read_lines(path)) == [str(n) for n in range(8)]


def test_job_that_was_lost_is_judged_on_the_next_run(task: Path, tmp_path: Path) -> None:
    path, executor = tmp_path / "results.jsonl", Counting()
    executor.end = Lost("no memory")
    with ResultLog(path) as log:
        assert [end for _, end in run_many(make_jobs(task, 1), executor, log=log)] == [executor.end]
    executor.end = Judged(make_verdict())
    with ResultLog(path) as log:
        assert [end for _, end in run_many(make_jobs(task, 1), executor, log=log)] == [executor.end]
    assert executor.asked == ["0", "0"]


def test_changed_kernel_is_judged_again(task: Path, tmp_path: Path) -> None:
    path, executor = tmp_path / "results.jsonl", Counting()
    for source in (RIGHT, WRONG, WRONG):
        with ResultLog(path) as log:
            list(run_many([make_job(task, source=source)], executor, log=log))
    assert executor.asked == ["one", "one"]


@pytest.mark.parametrize("answers", [True, False])
def test_equal_jobs_are_judged_once_and_each_is_written(
    task: Path, tmp_path: Path, answers: bool
) -> None:
    """Whether the first has ended when the second comes, or not."""
    path, executor = tmp_path / "results.jsonl", Counting()
    executor.answers = answers

    def jobs() -> Iterator[Job]:
        yield from (make_job(task, name=str(n), seed=None) for n in range(5))
        if not answers:
            executor.open[0].set_result(executor.end)

    with ResultLog(path) as log:
        found = {job.id: end for job, end in run_many(jobs(), executor, log=log)}
    assert found == {str(n): executor.end for n in range(5)}
    assert executor.asked == ["0"]
    assert sorted(line["id"] for line in read_lines(path)) == list("01234")


def test_only_so_many_jobs_are_in_flight(task: Path) -> None:
    executor = Counting()
    executor.answers = False
    in_flight: list[int] = []

    def jobs() -> Iterator[Job]:
        for job in make_jobs(task, 10):
            in_flight.append(sum(not future.done() for future in executor.open))
            yield job
            Timer(0.01, executor.open[-1].set_result, [executor.end]).start()

    assert len(list(run_many(jobs(), executor))) == 10
    assert max(in_flight) == executor.capacity - 1


def test_left_run_cancels_what_waits(task: Path) -> None:
    executor = Counting()
    executor.answers = False

    def jobs() -> Iterator[Job]:
        yield from make_jobs(task, 2)
        executor.open[0].set_result(executor.end)
        yield make_job(task, name="last", seed=99)

    run = run_many(jobs(), executor)
    next(run)
    run.close()
    assert [future.cancelled() for future in executor.open] == [False, True, True]


def test_two_jobs_with_one_id_are_refused(task: Path) -> None:
    jobs = [make_job(task, seed=1), make_job(task, seed=2)]
    with pytest.raises(UsageError, match="two different jobs have the id `one`"):
        list(run_many(jobs, Counting()))


def test_job_without_a_usable_id_is_refused(task: Path) -> None:
    for name in ("", "\ud800"):
        with pytest.raises(UsageError, match="id"):
            make_job(task, name=name)


def test_unreadable_task_needs_no_worker(tmp_path: Path) -> None:
    executor = Counting()
    ((_, end),) = run_many([make_job(tmp_path / "none.py")], executor)
    assert isinstance(end, Unusable)
    assert not executor.asked


def test_known_verdict_is_taken_from_the_cache(task: Path, tmp_path: Path) -> None:
    executor = Counting()
    for name in ("first", "second"):
        with VerdictCache(tmp_path / "verdicts.sqlite") as cache:
            ((_, end),) = run_many([make_job(task, name=name)], executor, cache=cache)
            assert end == executor.end
    assert executor.asked == ["first"]


def test_other_ends_are_not_cached(task: Path, tmp_path: Path) -> None:
    executor = Counting()
    executor.end = Lost("no memory")
    with VerdictCache(tmp_path / "verdicts.sqlite") as cache:
        for name in ("first", "second"):
            list(run_many([make_job(task, name=name)], executor, cache=cache))
    assert executor.asked == ["first", "second"]


@pytest.mark.parametrize("reference", ["return np.load('x') + x", "import importlib; return x"])
def test_task_that_reads_more_than_its_source_is_not_cached(tmp_path: Path, reference: str) -> None:
    task, executor = write_task(tmp_path, reference=reference), Counting()
    with VerdictCache(tmp_path / "verdicts.sqlite") as cache:
        for name in ("first", "second"):
            list(run_many([make_job(task, name=name)], executor, cache=cache))
    assert executor.asked == ["first", "second"]


def test_key_changes_with_all_that_decides_a_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside.py").write_text("A = 1\n")
    task = write_task(tmp_path, reference="import beside; return x + 1.0")
    base = {"id": "x", "kernel": Kernel.from_text(RIGHT), "task": task}
    jobs = [
        Job(**base),  # type: ignore[arg-type]
        Job(**base | {"kernel": Kernel.from_text(WRONG)}),  # type: ignore[arg-type]
        Job(**base | {"kernel": Kernel({"k.py": RIGHT, "l.py": RIGHT}, "k.py")}),  # type: ignore[arg-type]
        Job(**base | {"kernel": Kernel({"k.py": RIGHT, "l.py": RIGHT}, "l.py")}),  # type: ignore[arg-type]
        Job(**base | {"target": Target.TRN3}),  # type: ignore[arg-type]
        Job(**base | {"scope": Scope.CLAIM}),  # type: ignore[arg-type]
        Job(**base | {"root_seed": 1}),  # type: ignore[arg-type]
        Job(**base | {"task": write_task(tmp_path, name="other")}),  # type: ignore[arg-type]
    ]
    keys = [KeyMaker().make(job).text for job in jobs]
    (tmp_path / "beside.py").write_text("A = 2\n")
    keys.append(KeyMaker().make(jobs[0]).text)
    with monkeypatch.context() as later:
        later.setattr("nki_agent.farm.key.TRIALS_VERSION", 0)
        keys.append(KeyMaker().make(jobs[0]).text)
    assert len(set(keys)) == len(keys)
    assert KeyMaker().make(jobs[0]) == KeyMaker().make(Job(**base | {"id": "y"}))  # type: ignore[arg-type]
