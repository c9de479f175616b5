"""A task with other numbers: the same work, other constants; what has none is left alone."""

from __future__ import annotations

import re

import msgspec
import pytest

from nki_agent.base.hashes import hash_text
from nki_agent.base.seeds import rng_for
from nki_agent.corpus.canonical import canonical_graph
from nki_agent.corpus.record import CorpusTask
from nki_agent.train.renumbering import is_renumbered, renumber
from tests.train.test_reranking import row

CLAMP = "torch.where(x.abs() > 0.25, torch.clamp(x, -0.3, 2.5), 0.0) + 1e-6 * gain"


def change(task: CorpusTask, seed: int = 0) -> CorpusTask:
    made = renumber(task, rng_for(seed, task.id))
    assert made is not None
    return made


@pytest.mark.parametrize("seed", range(4))
def test_other_numbers_are_the_same_work(seed: int) -> None:
    before = row(CLAMP)
    made = change(before, seed)
    assert made.sha256 == hash_text(made.source) != before.sha256
    assert is_renumbered(made.id)
    assert not is_renumbered(before.id)
    assert canonical_graph(made.source).hash == canonical_graph(before.source).hash


def test_nothing_but_numbers_is_changed_and_all_of_them_are() -> None:
    before, number = row(CLAMP), re.compile(r"\d+\.\d+|\d+e-\d+")
    made = change(before)
    assert number.sub("#", made.source) == number.sub("#", before.source)
    pairs = list(zip(number.findall(before.source), number.findall(made.source), strict=True))
    assert [old for old, new in pairs if old == new] == ["0.0"]
    assert all(float(new) == 0.0 or 1 / 100 <= float(new) / float(old) <= 100 for old, new in pairs)


@pytest.mark.parametrize("steps", ["torch.relu(x)", "x * 2 + gain", "torch.where(x > 0.0, x, 1.0)"])
def test_what_has_no_number_to_change_is_left_alone(steps: str) -> None:
    assert renumber(row(steps), rng_for(0, "none")) is None


def test_other_seeds_give_other_numbers() -> None:
    task = msgspec.structs.replace(row(CLAMP), id="c-one")
    assert len({change(task, seed).source for seed in range(8)}) > 4
