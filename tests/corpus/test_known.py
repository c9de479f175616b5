"""Every task of our benchmark has a graph, and tasks that are to differ have different ones."""

from __future__ import annotations

from collections import defaultdict

from nki_agent.corpus.known import read_own

ALIKE = [
    {"l1-matmul-bf16", "l1-matmul-f32-square", "l1-matmul-large-k"}
    | {"l1-matmul-ragged", "l1-matmul-small-k"},
    {"l1-nchw-to-nhwc-4d", "l1-permute-021-3d-bf16"},
    {"l1-permute-03142-5d", "l1-pixel-shuffle-4d-bf16"},
    {"l1-topk64-rows-2d", "l1-topk8-rows-2d"},
    {"l2-cross-attention-bf16", "l2-sdpa-full-bf16"},
    {"l2-embedding-bag-weighted", "l2-moe-combine-weighted"},
    {"l2-quant-fp8-block128-2d", "l2-quant-fp8-per-row"},
]
"""One computation in other sizes, dtypes or ranks."""


def test_graphs_of_the_benchmark_are_alike_only_where_the_computation_is() -> None:
    known = read_own()
    groups: dict[str, set[str]] = defaultdict(set)
    for task in known:
        assert task.print.graph is not None
        groups[task.print.graph.hash].add(task.id)
    assert len(known) == 250
    assert sorted((g for g in groups.values() if len(g) > 1), key=min) == ALIKE
