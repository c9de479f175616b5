"""Rows and reward for verl: what a reply is worth there is what the judge says."""

from __future__ import annotations

from typing import Any

import pytest

from nki_agent.agent.episode import Mode
from nki_agent.base.errors import TaskError
from nki_agent.chip.spec import Target
from nki_agent.train.shelf import Shelf
from nki_agent.train.verl import compute_score, make_rows
from tests.train.world import KERNEL, World, make_world


@pytest.fixture(scope="module")
def row(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    world: World = make_world(tmp_path_factory.mktemp("world"))
    shelf = Shelf(world.corpus, folder=world.folder / "tasks")
    entries = shelf.take_all(shelf.list_split("train"))
    rows = make_rows(
        entries, target=Target.TRN2, baselines={"c-relu": 7000.0}, mode=Mode.SINGLE_SHOT
    )
    return next(r for r in rows if "c-relu" in r["reward_model"]["ground_truth"])


def score(row: dict[str, Any], text: str, **more: str) -> dict[str, float]:
    truth = row["reward_model"]["ground_truth"]
    return compute_score(row["data_source"], text, truth, row["extra_info"], **more)


def test_a_right_kernel_gets_more_than_a_wrong_one_and_that_more_than_none(
    row: dict[str, Any],
) -> None:
    right = score(row, f"Here:\n```python\n{KERNEL.format(function='relu')}```")
    wrong = score(row, f"```python\n{KERNEL.format(function='tanh')}```")
    none = score(row, "I can't.")
    assert right["right"] == 1.0
    assert wrong["compiles"] == 1.0
    assert wrong["right"] == 0.0
    assert right["score"] > wrong["score"] > none["score"]
    assert right["cuda-agent"] == 2.0  # 7 µs of the baseline against 3.6


def test_the_reward_is_the_one_that_the_config_names(row: dict[str, Any]) -> None:
    wrong = score(row, f"```python\n{KERNEL.format(function='tanh')}```", reward="compiles")
    assert wrong["score"] == 1.0


def test_a_row_says_all_that_a_model_is_asked(row: dict[str, Any]) -> None:
    assert [message["role"] for message in row["prompt"]] == ["system", "user"]
    assert "torch.relu(x)" in row["prompt"][1]["content"]
    assert "There are no tools." in row["prompt"][0]["content"]


def test_a_row_without_a_task_is_our_fault_and_no_reward(row: dict[str, Any]) -> None:
    truth = row["reward_model"]["ground_truth"].replace("torch.relu", "torch.no_such_thing")
    with pytest.raises(TaskError, match="no_such_thing"):
        compute_score("nki-agent", f"```python\n{KERNEL.format(function='relu')}```", truth)
