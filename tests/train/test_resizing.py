"""A task at other sizes: shapes stay what is declared, what cannot be followed stays as it is."""

from __future__ import annotations

import re

import msgspec

from nki_agent.base.hashes import hash_text
from nki_agent.base.seeds import rng_for
from nki_agent.corpus.record import CorpusTask
from nki_agent.train.resizing import resize
from nki_agent.train.short_rows import ShortRow, vary_sizes
from tests.train.world import make_row

SOURCE = '''"""Pairs of columns summed."""

import torch

SHAPES = {"dev": {"M": 96, "N": 200}, "odd": {"M": 33, "N": 130}}
INPUTS = {"x": "float32[M, 2 * N]", "gain": "float32[N] gain"}
OUTPUTS = {"y": "float32[M, N]"}


def reference(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return x.unflatten(1, (-1, 2)).sum(-1) * gain
'''
USER = """x: float32 [96, 400]
gain: float32 [200]
-> float32 [96, 200]
return x.unflatten(1, (-1, 2)).sum(-1) * gain"""
SHOWN = re.compile(
    r"x: float32 \[(\d+), (\d+)\]\ngain: float32 \[(\d+)\]\n-> float32 \[(\d+), (\d+)\]\n(.*)"
)


def row(source: str = SOURCE) -> CorpusTask:
    return msgspec.structs.replace(
        make_row("c-pairs", "relu"), source=source, sha256=hash_text(source)
    )


def test_shapes_at_other_sizes_are_those_that_the_task_declares() -> None:
    for seed in range(50):
        text = resize(row(), USER, rng_for(seed, "sizes"))
        found = SHOWN.fullmatch(text or "")
        assert found is not None
        m, double, n, rows, cols = map(int, found.groups()[:5])
        assert (rows, cols, double) == (m, n, 2 * n)
        assert found[6] == USER.splitlines()[-1]


def test_a_size_stays_on_its_side_of_the_partitions() -> None:
    drawn = [SHOWN.fullmatch(resize(row(), USER, rng_for(s, "side")) or "") for s in range(50)]
    assert all(found is not None and int(found[1]) <= 128 < int(found[3]) for found in drawn)
    assert len({found[1] for found in drawn if found is not None}) > 5


def test_a_prompt_whose_shapes_are_not_the_declared_ones_is_left_alone() -> None:
    rng = rng_for(0, "left alone")
    assert resize(row(), USER.replace("400", "401"), rng) is None
    assert resize(row(SOURCE.replace("SHAPES", "OTHERS")), USER, rng) is None
    assert resize(row(), f"M = 96\n{USER}", rng) is None


def test_a_dialogue_at_several_sizes_keeps_its_kernel_and_repeats_no_prompt() -> None:
    messages = [
        {"role": role, "content": text}
        for role, text in (("system", "s"), ("user", USER), ("assistant", "kernel"))
    ]
    first = ShortRow(
        id="c-pairs/single",
        kind="single",
        split="train",
        level=1,
        messages=messages,
        trained=[False, False, True],
    )
    made = list(vary_sizes(first, row(), times=6, seed=0))
    assert made[0] == first
    assert len({one.messages[1]["content"] for one in made}) == len(made) > 3
    assert len({one.id for one in made}) == len(made)
    assert all(one.messages[2] == messages[2] for one in made)
