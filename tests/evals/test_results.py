"""What an evaluation has written is read whole, scored over all its tasks, and never mixed."""

from pathlib import Path

import msgspec
import pytest

from nki_agent.agent.episode import Limits
from nki_agent.base.errors import UsageError
from nki_agent.evals.attempts import AttemptLog
from nki_agent.evals.results import CONFIG, LINES, read_results, require_comparable
from tests.evals.made import TASKS, VERSIONS, make_attempt, make_config, write_run, write_usual_run


def test_scores_count_tasks_without_an_attempt(tmp_path: Path) -> None:
    groups = {(g.kind, g.name): g.scores for g in read_results(write_usual_run(tmp_path)).groups()}
    assert groups["all", "all"].right.value == 0.25
    assert groups["level", "3"].attempts == 0
    assert groups["level", "1"].right.value == 0.5
    assert groups["category", "reduction"].compiled.value == 1.0
    assert groups["all", "all"].fast["1"].value == 0.25


def test_scores_are_the_same_each_time(tmp_path: Path) -> None:
    results = read_results(write_usual_run(tmp_path))
    assert list(results.groups()) == list(results.groups())


def test_log_resumes_and_knows_what_is_made(tmp_path: Path) -> None:
    write_usual_run(tmp_path)
    with AttemptLog(tmp_path / LINES) as log:
        assert log.has(("l1-add", "trn2", 0))
        assert not log.has(("l3-block", "trn2", 0))
        log.append(make_attempt(TASKS[3]))
    assert len(read_results(tmp_path).attempts) == 4


def test_torn_last_line_loses_nothing_else(tmp_path: Path) -> None:
    write_usual_run(tmp_path)
    path = tmp_path / LINES
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:80])
    assert len(read_results(tmp_path).attempts) == 3
    warned: list[str] = []
    with AttemptLog(path, warn=warned.append) as log:
        log.append(make_attempt(TASKS[3]))
    assert "was cut off" in warned[0]
    assert len(read_results(tmp_path).attempts) == 4


@pytest.mark.parametrize("line", [b"{}\n", b"not json\n", b'{"schema":99}\n'])
def test_foreign_line_is_named(tmp_path: Path, line: bytes) -> None:
    write_usual_run(tmp_path)
    with (tmp_path / LINES).open("ab") as file:
        file.write(line)
    with pytest.raises(UsageError, match="line 4"):
        read_results(tmp_path)


def test_config_of_another_version_is_named(tmp_path: Path) -> None:
    write_usual_run(tmp_path)
    plain = msgspec.json.decode((tmp_path / CONFIG).read_bytes())
    (tmp_path / CONFIG).write_bytes(msgspec.json.encode({**plain, "schema": 7}))
    with pytest.raises(UsageError, match="has schema 7"):
        read_results(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "3", "{", '{"schema": 1}'])
def test_broken_config_is_named(tmp_path: Path, text: str) -> None:
    write_usual_run(tmp_path)
    (tmp_path / CONFIG).write_text(text)
    with pytest.raises(UsageError, match=CONFIG):
        read_results(tmp_path)


def test_folder_without_an_evaluation_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no evaluation"):
        read_results(tmp_path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"versions": msgspec.structs.replace(VERSIONS, suite_hash="x")}, "suite hash"),
        ({"versions": msgspec.structs.replace(VERSIONS, cost_model=0)}, "cost model"),
        ({"versions": msgspec.structs.replace(VERSIONS, baseline=None)}, "baseline"),
        ({"tasks": TASKS[:2], "split": "two"}, "split"),
    ],
)
def test_runs_of_other_versions_are_not_compared(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    first = read_results(write_usual_run(tmp_path / "a"))
    second = read_results(write_run(tmp_path / "b", make_config(**changes), []))
    require_comparable([first, first])
    with pytest.raises(UsageError, match=said):
        require_comparable([first, second])


EDITS: dict[str, tuple[dict[str, object], str]] = {
    "a task left out": ({"tasks": TASKS[1:]}, "a task that the config does not name"),
    "another target": ({"targets": ("trn3",)}, "a target that the config does not name"),
    "another seed": ({"seed": 6}, "another seed"),
    "another level": (
        {"tasks": (msgspec.structs.replace(TASKS[0], level=2), *TASKS[1:])},
        "level 1 and category `elementwise`, in the config 2",
    ),
    "no perf shapes": ({"perf": False}, "which the config does not ask for"),
    "another model": ({"model": "other"}, "another config"),
    "another cost model": (
        {"versions": msgspec.structs.replace(VERSIONS, cost_model=99)},
        "another config",
    ),
    "another suite": (
        {"versions": msgspec.structs.replace(VERSIONS, suite_hash="x")},
        "another config",
    ),
    "more turns": ({"limits": Limits(turns=99)}, "another config"),
}
PROBLEMS: dict[str, tuple[dict[str, object], str]] = {
    "a task twice": ({"tasks": (*TASKS, TASKS[0])}, "named twice"),
    "a target twice": ({"targets": ("trn2", "trn2")}, "named twice"),
    "no target": ({"targets": ()}, "no target"),
    "no attempt": ({"samples": 0}, "less than one"),
    "a seed that is none": ({"seed": -1}, "its seed"),
}


def write_edited(folder: Path, changes: dict[str, object]) -> None:
    """A run whose config was changed after its attempts were made."""
    config = make_config()
    attempts = [make_attempt(t, config_hash=config.hash) for t in TASKS]
    write_run(folder, config, attempts)
    edited = msgspec.structs.replace(config, **changes)
    (folder / CONFIG).write_bytes(msgspec.json.encode(edited))


@pytest.mark.parametrize("name", [*EDITS, *PROBLEMS])
def test_config_that_was_changed_is_named_and_refused(tmp_path: Path, name: str) -> None:
    changes, said = {**EDITS, **PROBLEMS}[name]
    write_edited(tmp_path, changes)
    with pytest.raises(UsageError, match=said):
        read_results(tmp_path)


def test_config_with_another_layout_is_the_same(tmp_path: Path) -> None:
    write_edited(tmp_path, {})
    plain = msgspec.json.decode((tmp_path / CONFIG).read_bytes())
    turned = dict(reversed(plain.items()))
    (tmp_path / CONFIG).write_bytes(msgspec.json.format(msgspec.json.encode(turned), indent=4))
    assert len(read_results(tmp_path).attempts) == 4


def test_attempt_that_is_none_of_the_run_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path, make_config(), [make_attempt(TASKS[0], sample=1)])
    with pytest.raises(UsageError, match="asks for 1 from 0"):
        read_results(tmp_path)
