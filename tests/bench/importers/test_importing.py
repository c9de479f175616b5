"""A whole import: what is written, what is refused, and how it goes on."""

from pathlib import Path

import pytest

from nki_agent.base.errors import TaskError, UsageError
from nki_agent.base.jsonl import read_lines
from nki_agent.bench.importers.importing import JOURNAL, Step, Wish, import_suite
from nki_agent.bench.importers.toml import write_toml
from nki_agent.bench.suite import SUITE_FILE, Status, SuiteRecord, read_record, read_suite
from tests.bench.importers.conftest import SCALED_SUM, WriteSuite
from tests.cli.calling import call

FILES = {
    "level1/1_Sum.py": SCALED_SUM,
    "level1/2_Broken.py": "class Model(:",
    "level1/3_Sum.py": SCALED_SUM.replace("0.125", "0.25"),
    "level1/sub/3_Sum.py": SCALED_SUM.replace("0.125", "0.5"),
}
SIZE = 20_000


class StoppedError(Exception):
    """Stands for whatever ends an import in the middle."""


def run(path: Path, out: Path, steps: list[Step] | None = None, *, stop: int = 0) -> SuiteRecord:
    def tell(step: Step) -> None:
        if steps is not None:
            steps.append(step)
        if step.number == stop:
            raise StoppedError

    return import_suite(Wish(form="kernelbench", path=path, out=out, limit_elems=SIZE), tell=tell)


def test_import_writes_a_suite_that_reads_back(write_suite: WriteSuite, tmp_path: Path) -> None:
    record = run(write_suite(FILES), tmp_path / "out")
    assert read_record(tmp_path / "out") == record
    suite = read_suite(tmp_path / "out")
    assert [task.id for task in suite.tasks] == ["l1-1-sum", "l1-3-sum", "l1-3-sum-2"]
    assert not any(task.is_trusted for task in suite.tasks)
    (broken,) = suite.unfit
    assert "not Python" in broken.reasons[0]
    with pytest.raises(UsageError, match="is unfit"):
        suite.find_task(broken.id)


def test_second_task_of_an_id_gets_a_number_and_a_note(
    write_suite: WriteSuite, tmp_path: Path
) -> None:
    record = run(write_suite(FILES), tmp_path / "out")
    row = next(row for row in record.task if row.id == "l1-3-sum-2")
    assert row.notes == ("the id `l1-3-sum` was taken by another task of the suite",)


def test_import_that_was_stopped_goes_on(write_suite: WriteSuite, tmp_path: Path) -> None:
    path, out = write_suite(FILES), tmp_path / "out"
    with pytest.raises(StoppedError):
        run(path, out, stop=2)
    assert not (out / SUITE_FILE).exists()
    with (out / JOURNAL).open("ab") as file:
        file.write(b'{"id": "torn')
    steps: list[Step] = []
    record = run(path, out, steps)
    assert [step.is_new for step in steps] == [False, False, True, True]
    assert len(record.task) == len(FILES)
    assert not (out / JOURNAL).exists()
    assert record == run(path, tmp_path / "whole")


def test_import_makes_a_lost_task_again(write_suite: WriteSuite, tmp_path: Path) -> None:
    path, out = write_suite(FILES), tmp_path / "out"
    with pytest.raises(StoppedError):
        run(path, out, stop=2)
    (out / "tasks" / "l1-1-sum.py").unlink()
    run(path, out)
    assert len(read_suite(out).tasks) == 3


def test_same_import_again_does_nothing(write_suite: WriteSuite, tmp_path: Path) -> None:
    path, out = write_suite(FILES), tmp_path / "out"
    record = run(path, out)
    before = {file: file.stat().st_mtime_ns for file in out.rglob("*")}
    steps: list[Step] = []
    assert run(path, out, steps) == record
    assert not steps
    assert {file: file.stat().st_mtime_ns for file in out.rglob("*")} == before


def test_folder_of_another_suite_is_not_written_over(
    write_suite: WriteSuite, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    small = {"level1/1_a.py": "class Model(:"}
    run(write_suite(small), out)
    with pytest.raises(UsageError, match="holds another suite"):
        run(write_suite(FILES), out)


def test_folder_with_other_files_is_refused(write_suite: WriteSuite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("keep")
    with pytest.raises(UsageError, match="is not empty"):
        run(write_suite(FILES), out)
    assert [file.name for file in out.iterdir()] == ["mine.txt"]


def test_journal_begins_with_what_was_asked_for(write_suite: WriteSuite, tmp_path: Path) -> None:
    path, out = write_suite({"level1/1_a.py": "class Model(:"}), tmp_path / "out"
    with pytest.raises(StoppedError):
        run(path, out, stop=1)
    first = next(read_lines(out / JOURNAL))
    assert (first["format"], first["limit_elems"]) == ("kernelbench", SIZE)
    with pytest.raises(UsageError, match="import of another suite"):
        run(write_suite({"level1/2_b.py": "class Model(:"}), out)


def test_changed_task_file_is_refused(write_suite: WriteSuite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(write_suite(FILES), out)
    with (out / "tasks" / "l1-1-sum.py").open("a") as file:
        file.write("\n")
    with pytest.raises(TaskError, match="not the file that was imported"):
        read_suite(out)


def test_strange_texts_survive_the_toml(write_suite: WriteSuite, tmp_path: Path) -> None:
    name = 'level1/1_"quote"\x7f\\n.py'
    record = run(write_suite({name: "class Model(:"}), tmp_path / "out")
    (tmp_path / "out" / SUITE_FILE).write_text(write_toml(record))
    assert read_record(tmp_path / "out") == record


def test_command_says_what_is_unfit_and_why(write_suite: WriteSuite, tmp_path: Path) -> None:
    path, out = write_suite(FILES), tmp_path / "out"
    arguments = ("bench", "import", "kernelbench", path, "--out", out, "--limit-elems", SIZE)
    called = call(*arguments)
    assert called.code == 0, called.err
    assert "4 tasks, 3 fit, 1 unfit, 3 scaled" in called.out
    assert "unfit  l1-2-broken" in called.out
    assert "[1/4] l1-1-sum  fit" in called.err
    again = call(*arguments, "--json")
    statuses = [row["status"] for row in again.document["task"]]
    assert statuses.count(Status.FIT) == 3


def test_command_fails_where_nothing_is_fit(write_suite: WriteSuite, tmp_path: Path) -> None:
    path = write_suite({"level1/1_a.py": "class Model(:"})
    assert call("bench", "import", "kernelbench", path, "--out", tmp_path / "two").code == 1


def test_command_refuses_what_is_no_suite(tmp_path: Path) -> None:
    called = call("bench", "import", "auto", tmp_path, "--out", tmp_path / "out")
    assert called.code == 2
    assert "holds no" in called.err
