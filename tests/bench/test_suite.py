"""The index and the splits of our own suite."""

from collections import Counter

import pytest

from nki_agent.base.errors import UsageError
from nki_agent.bench.splits import find_split, read_splits
from nki_agent.bench.suite import builtin_suite
from scripts.make_bench import allot, make_files
from tests.bench.table import read_rows

SUITE = builtin_suite()
LEVELS = {task.id: task.level for task in SUITE.tasks}


def test_index_and_splits_are_made_from_the_table() -> None:
    stale = [path.name for path, text in make_files().items() if path.read_text() != text]
    assert stale == [], "run scripts/make_bench.py"


def test_every_task_of_the_table_is_in_the_suite() -> None:
    assert [task.id for task in SUITE.tasks] == [row.task_id for row in read_rows()]


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("full-250", {1: 100, 2: 100, 3: 50}),
        ("stratified-150", {1: 60, 2: 60, 3: 30}),
        ("stratified-60", {1: 24, 2: 24, 3: 12}),
        ("smoke-12", {1: 5, 2: 5, 3: 2}),
    ],
)
def test_split_is_balanced_over_levels(name: str, levels: dict[int, int]) -> None:
    split = find_split(name)
    assert Counter(LEVELS[task] for task in split.tasks) == levels
    assert len(set(split.tasks)) == len(split.tasks)


def test_split_has_its_share_of_each_category() -> None:
    groups = Counter((task.level, task.category) for task in SUITE.tasks)
    for name, split in read_splits().items():
        share = len(split.tasks) / len(SUITE.tasks)
        chosen = set(split.tasks)
        found = Counter((t.level, t.category) for t in SUITE.tasks if t.id in chosen)
        for group, size in groups.items():
            assert abs(found[group] - size * share) < 1 + 1e-9, (name, group)


def test_splits_are_frozen() -> None:
    hashes = {name: split.hash[:12] for name, split in read_splits().items()}
    assert hashes == {
        "full-250": "4150ce6c30c8",
        "stratified-150": "a84a05c91074",
        "stratified-60": "899d999d8a83",
        "smoke-12": "7f0e68ad0a8a",
    }


def test_unknown_split_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean `smoke-12`"):
        find_split("smoke12")


def test_unknown_task_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean `l1-relu-1d-bf16`"):
        SUITE.find_task("l1-relu-1d-bf61")


def test_allotment_is_in_proportion_and_adds_up() -> None:
    found = allot({"a": 30, "b": 30, "c": 11}, 14)
    assert sum(found.values()) == 14
    assert (found["a"], found["b"], found["c"]) in {(6, 6, 2), (5, 6, 3), (6, 5, 3)}
