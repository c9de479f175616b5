"""Bounds of the benchmark: what they count, and that no kernel of the built-in author beats one."""

from __future__ import annotations

import csv
import functools
from collections.abc import Iterator

import pytest

from nki_agent.bench.suite import builtin_suite
from nki_agent.builtin.graph import UnsupportedError
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.task.loader import load_task
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from tests.bench.table import TABLE, read_rows

SUITE = builtin_suite()
IDS = [task.id for task in SUITE.tasks]
NEAR = ("l1-relu-1d-bf16", "l1-tril-copy-2d", "l1-add-2d-bf16")
"""Tasks whose kernels come near their bound."""


@functools.cache
def load(task_id: str) -> Task:
    return load_task(SUITE.find_task(task_id).path, name=task_id)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(target=Target.TRN2) as judge:
        yield judge


def find_percent(judge: Judge, task_id: str) -> float | None:
    """The share of the bound at perf; None where no kernel is written or it does not fit."""
    task = load(task_id)
    try:
        source = write_kernel(task, judge.target)
    except UnsupportedError:
        return None
    summary = judge.look(Kernel.from_text(source), task.perf).summary
    return None if summary is None else summary.percent_of_bound


@pytest.mark.parametrize("task_id", NEAR)
def test_kernel_near_its_bound_is_under_it(judge: Judge, task_id: str) -> None:
    percent = find_percent(judge, task_id)
    assert percent is not None
    assert 50 < percent <= 100


@pytest.mark.slow
@pytest.mark.parametrize("task_id", IDS)
def test_no_kernel_of_the_builtin_author_beats_its_bound(judge: Judge, task_id: str) -> None:
    percent = find_percent(judge, task_id)
    if percent is None:
        pytest.skip("the built-in author writes no kernel that fits")
    assert percent <= 100


# Perf sizes: dense attention is 4 * B * H * D * S * S.
@pytest.mark.parametrize(
    ("task_id", "dense", "share"),
    [
        ("l2-sdpa-full-bf16", 4 * 2 * 8 * 64 * 1024**2, 1.0),
        ("l2-sdpa-causal-prefill-bf16", 4 * 16 * 128 * 2048**2, 2049 / 4096),
        ("l2-sliding-window-attention-bf16", 4 * 16 * 128 * 2048**2, 512 * 3585 / 2 / 2048**2),
        ("l2-docmask-attention", 4 * 8 * 64 * 1024**2, 257 / 2048),
        ("l1-gram-2d", 2 * 8192 * 1024**2, 1025 / 2048),
        ("l1-tril-matmul", 2 * 2048**3, 2049 / 4096),
        ("l1-conv2d-3x3-4d-bf16", 14797504512, (166 / 168) ** 2),
    ],
)
def test_products_that_nothing_needs_are_not_counted(
    task_id: str, dense: int, share: float
) -> None:
    assert load(task_id).perf.work.matmul_flops == round(dense * share)


@pytest.mark.parametrize(
    ("task_id", "width", "length"),
    [
        # Heads times the widths of a key and a value, and the sequence.
        ("l3-gpt2-block-bf16", 12 * 128, 1024),
        ("l3-llama-block-prefill-bf16", 16 * 256, 1024),
        ("l3-mla-prefill-deepseek-bf16", 16 * 320, 1024),
        ("l3-falcon-mqa-parallel-block-bf16", 16 * 128, 512),
        ("l3-parallel-attn-mlp-phi-bf16", 32 * 128, 1024),
        ("l3-qwen3-attention-qknorm-bf16", 16 * 256, 1024),
    ],
)
def test_blocks_leave_out_the_masked_half_of_attention_alone(
    task_id: str, width: int, length: int
) -> None:
    name = next(r.cells["name"] for r in read_rows() if r.task_id == task_id)
    with TABLE.open() as file:
        cells = next(c for c in csv.DictReader(file, delimiter="\t") if c["name"] == name)
    masked = length * (length - 1) // 2
    wanted = int(cells["mm_flops"]) - 2 * width * masked
    assert load(task_id).perf.work.matmul_flops == wanted
