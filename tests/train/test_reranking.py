"""A task at another rank: the same work, other leading axes; what counts axes is left alone."""

from __future__ import annotations

import re

import msgspec
import pytest

from nki_agent.base.hashes import hash_text
from nki_agent.base.seeds import rng_for
from nki_agent.corpus.canonical import canonical_graph
from nki_agent.corpus.record import CorpusTask
from nki_agent.train.reranking import is_reranked, rerank
from tests.train.world import make_row

SOURCE = '''"""Each row in units of its root mean square, with a gain."""

import torch
import torch.nn.functional as F

SHAPES = {{
    "dev": {{"B": 4, "S": 30, "E": 64}},
    "odd": {{"B": 3, "S": 7, "E": 70}},
    "perf": {{"B": 8, "S": 512, "E": 768}},
}}
INPUTS = {{"x": "float32[B, S, E]", "gain": "float32[E] gain"}}
OUTPUTS = {{"y": "float32[B, S, E]"}}
TOLERANCE = "F2"


def reference(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return {steps}
'''
STEPS = "F.rms_norm(x, x.shape[-1:], gain, eps=1e-6)"


def row(steps: str = STEPS, *, source: str = SOURCE) -> CorpusTask:
    text = source.format(steps=steps)
    made = make_row("c-norm", "rms_norm")
    return msgspec.structs.replace(made, source=text, sha256=hash_text(text), rank=3)


def test_a_task_at_another_rank_computes_the_same_graph() -> None:
    graph = canonical_graph(row().source)
    made = [rerank(row(), rng_for(seed, "rank")) for seed in range(12)]
    ranks = {one.rank for one in made if one is not None}
    assert ranks == {2, 4, 5}
    for one in made[:4]:
        assert one is not None
        assert canonical_graph(one.source).hash == graph.hash
        assert one.sha256 == hash_text(one.source)
        assert one.id == f"c-norm-r{one.rank}"
        assert is_reranked(one.id)
    assert not is_reranked("c-norm")


def test_the_last_axis_and_a_rows_gain_stay() -> None:
    made = rerank(row(), rng_for(0, "gain"))
    assert made is not None
    assert '"gain": "float32[E] gain"' in made.source
    assert re.search(r'"x": "float32\[[A-Z, ]*, E\]"', made.source)
    assert made.source.endswith(row().source[row().source.index("def reference") :])


@pytest.mark.parametrize(
    "steps",
    ["x.mean(dim=1, keepdim=True) * x", "x.transpose(1, 2).contiguous()", "x + gain[:, None]"],
)
def test_a_reference_that_counts_axes_is_left_alone(steps: str) -> None:
    assert rerank(row(steps), rng_for(0, "counts")) is None


def test_axes_that_another_tensor_has_elsewhere_are_left_alone() -> None:
    gain_of_rows = SOURCE.replace("float32[E] gain", "float32[S] gain")
    assert rerank(row("x", source=gain_of_rows), rng_for(0, "elsewhere")) is None
    assert rerank(row("x * B"), rng_for(0, "size")) is None
