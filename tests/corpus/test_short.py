"""Short forms: whole or not at all, and the kernel still the same program."""

import ast

from nki_agent.corpus.record import Solution
from nki_agent.corpus.short import short_form, shorten, shorten_task
from tests.corpus.small import bench_row
from tests.corpus.test_faults import KERNEL


def make_solution(kernel: str) -> Solution:
    return Solution(
        task="l1-rsqrt-2d",
        task_hash="",
        task_sha256="",
        kernel=kernel,
        kernel_sha256="",
        author="builtin",
        dialect="nki",
        target="trn2",
        latency_ns=1.0,
        percent_of_bound=1.0,
        root_seed="0",
        tool_version="0",
    )


def test_short_kernel_is_the_same_tree_without_its_texts() -> None:
    with_texts = KERNEL.replace("def kernel(x):", 'def kernel(x):\n    """Says it."""\n    # Why.')
    assert ast.dump(ast.parse(shorten(with_texts))) == ast.dump(ast.parse(shorten(KERNEL)))
    assert ast.dump(ast.parse(shorten(KERNEL))) == ast.dump(ast.parse(KERNEL))
    assert len(shorten(KERNEL)) < len(KERNEL)


def test_short_task_keeps_names_shapes_and_the_reference() -> None:
    text = shorten_task(bench_row("l1-rsqrt-2d").source)
    assert "x: float32[M, N]" in text
    assert "torch.rsqrt" in text
    assert '"""' not in text
    assert "SHAPES" not in text


def test_what_does_not_fit_whole_is_not_made() -> None:
    row, solution = bench_row("l1-rsqrt-2d"), make_solution(KERNEL)
    found = short_form(row, solution)
    assert found is not None
    assert found.prompt.startswith("NKI kernel for trn2.")
    assert short_form(row, solution, tokens_max=60) is None
    assert short_form(row, make_solution(KERNEL + "x = 1\n" * 300)) is None


def test_tokens_are_counted_as_asked() -> None:
    row, solution = bench_row("l1-rsqrt-2d"), make_solution(KERNEL)
    assert short_form(row, solution, count=len) is None
