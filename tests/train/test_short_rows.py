"""Short dialogues: right kernels are taught, faulty ones are shown with the loop's own answer."""

from __future__ import annotations

import msgspec
import pytest

from nki_agent.chip.spec import Target
from nki_agent.corpus.short import short_prompt, shorten
from nki_agent.farm.local import LocalExecutor
from nki_agent.train.shelf import Shelf
from nki_agent.train.short_rows import (
    REPAIR,
    SINGLE,
    ShortRow,
    ShortTask,
    make_rows,
)
from tests.train.world import KERNEL, make_world

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("train")]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    folder = tmp_path_factory.mktemp("short")
    return Shelf(make_world(folder).corpus, folder=folder / "tasks")


def make_tasks(
    shelf: Shelf, kernels: dict[str, str], *, graph: str | None = None
) -> list[ShortTask]:
    return [
        ShortTask(
            row=row if graph is None else msgspec.structs.replace(row, graph=graph),
            target=Target.TRN2,
            prompt=short_prompt(shelf.take(row).task, Target.TRN2),
            kernel=shorten(KERNEL.format(function=kernels[row.id])),
        )
        for row in shelf.rows
    ]


def make(shelf: Shelf, tasks: list[ShortTask], *, repairs: float) -> list[ShortRow]:
    with LocalExecutor(workers=1) as executor:
        found = make_rows(tasks, shelf, executor=executor, repairs=repairs, seed=0)
        return [row for rows in found for row in rows]


def test_a_kernel_that_is_not_right_is_not_taught(shelf: Shelf) -> None:
    tasks = make_tasks(shelf, {"c-relu": "relu", "c-tanh": "relu"})
    rows = make(shelf, tasks, repairs=0.0)
    assert [row.id for row in rows] == ["c-relu/single"]
    assert rows[0].trained == [False, False, True]


def test_a_repair_shows_what_was_refused_and_teaches_the_right_kernel_alone(shelf: Shelf) -> None:
    right = {"c-relu": "relu", "c-tanh": "tanh"}
    rows = make(shelf, make_tasks(shelf, right, graph="one"), repairs=1.0)
    by_task = {row.id: row for row in rows}
    assert len(by_task) == len(rows)
    once = by_task["c-relu/repair1"]
    assert "nl.tanh" in once.messages[2]["content"]
    assert once.messages[3]["content"].startswith("wrong: NK501")
    assert once.messages[4] == by_task["c-relu/single"].messages[2]
    assert once.trained == [False] * 4 + [True]
    twice = [row for row in rows if row.kind == REPAIR and len(row.messages) > 5]
    assert all(row.messages[:4] == by_task[f"{row.id[:-1]}1"].messages[:4] for row in twice)
    assert {row.kind for row in rows} == {SINGLE, REPAIR}


def test_the_same_rows_are_made_every_time(shelf: Shelf) -> None:
    tasks = make_tasks(shelf, {"c-relu": "relu", "c-tanh": "tanh"}, graph="one")
    assert make(shelf, tasks, repairs=1.0) == make(shelf, tasks, repairs=1.0)
