"""The frozen list is compared, and refused where it is damaged."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from nki_agent.base.errors import MachineError
from nki_agent.corpus.freeze import Recipe, find_difference, freeze, read_frozen, write_frozen
from nki_agent.corpus.record import BoundKind, CorpusTask, Family, Split

RECIPE = Recipe(root=0, candidates=10, tasks=3, grammar_sha256="g")


def make(name: str, split: Split = Split.TRAIN) -> CorpusTask:
    return CorpusTask(
        id=name,
        source="",
        sha256="",
        family=Family.NORM,
        pattern="p",
        operators=(),
        level=1,
        rank=2,
        dtype="float32",
        tolerance="F2",
        bound=BoundKind.VECTOR,
        bound_ns=1.0,
        graph="",
        split=split,
    )


TASKS = [make("c-norm-rms-00000a"), make("c-norm-rms-00000b", Split.TEST), make("c-scan-x-00000c")]


def test_list_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "frozen.json"
    frozen = freeze(TASKS, recipe=RECIPE, rows_sha256="r")
    path.write_bytes(write_frozen(frozen))
    assert read_frozen(path) == frozen
    assert find_difference(frozen, frozen) is None


def test_first_task_that_differs_is_named() -> None:
    frozen = freeze(TASKS, recipe=RECIPE, rows_sha256="r")
    other = [TASKS[0], make("c-norm-rms-00000b"), TASKS[2]]
    moved = freeze(other, recipe=RECIPE, rows_sha256="r")
    assert find_difference(moved, frozen) == (
        "expected `c-norm-rms-00000b` in test, found `c-norm-rms-00000b` in train"
    )
    fewer = freeze(TASKS[:2], recipe=RECIPE, rows_sha256="r")
    assert find_difference(fewer, frozen) == (
        "expected `c-scan-x-00000c` in train, found no more tasks"
    )


def test_rows_that_differ_in_anything_else_are_told() -> None:
    frozen = freeze(TASKS, recipe=RECIPE, rows_sha256="r")
    made = freeze(TASKS, recipe=RECIPE, rows_sha256="s")
    assert "the rows have the hash" in str(find_difference(made, frozen))


def test_list_that_is_not_what_its_hash_says_is_refused(tmp_path: Path) -> None:
    frozen = freeze(TASKS, recipe=RECIPE, rows_sha256="r")
    changed = msgspec.structs.replace(frozen, tasks={"c-norm-rms": "00000at 00000bt"})
    path = tmp_path / "frozen.json"
    path.write_bytes(write_frozen(changed))
    with pytest.raises(MachineError, match="has the hash"):
        read_frozen(path)
    path.write_bytes(b"{")
    with pytest.raises(MachineError, match="broken"):
        read_frozen(path)


def test_list_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert read_frozen(tmp_path / "none.json") is None
