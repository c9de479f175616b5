"""A run's folder is new, named for what it holds, and never written over."""

import json
from pathlib import Path

import msgspec
import pytest

from nki_agent.agent.folder import make_run_folder, make_slug
from nki_agent.base.clock import FakeClock
from nki_agent.base.errors import UsageError

CLOCK = FakeClock(start_ns=1_788_400_000 * 10**9)


class Config(msgspec.Struct):
    seed: int = 1


def make(root: Path, seed: int = 1) -> Path:
    return make_run_folder(
        root, kind="solve", subject="My Task.v2", config=Config(seed), clock=CLOCK
    ).path


def test_name_is_date_kind_subject_and_hash(tmp_path: Path) -> None:
    path = make(tmp_path / "deep" / "runs")
    assert path.name.startswith("2026-09-03-solve-my-task-v2-")
    assert len(path.name.rpartition("-")[2]) == 6
    assert json.loads((path / "config.json").read_text()) == {"seed": 1}


def test_same_config_gets_a_counter_and_another_one_another_hash(tmp_path: Path) -> None:
    first, second, third, other = (
        make(tmp_path),
        make(tmp_path),
        make(tmp_path),
        make(tmp_path, 2),
    )
    assert [second.name, third.name] == [f"{first.name}-2", f"{first.name}-3"]
    assert other.name[:-6] == first.name[:-6]
    assert other.name != first.name


def test_place_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(UsageError, match="cannot write a run folder under"):
        make(tmp_path / "runs")


@pytest.mark.parametrize(("text", "slug"), [("../../x", "x"), ("Ünï", "n"), ("--", "task")])
def test_slug_is_safe_as_a_folder_name(text: str, slug: str) -> None:
    assert make_slug(text) == slug
