"""Short forms: whole or not at all, and the kernel still the same program."""

import ast

from nki_agent.bench.suite import builtin_suite
from nki_agent.corpus.record import Solution
from nki_agent.corpus.short import short_form, shorten
from nki_agent.task.loader import load_task
from nki_agent.task.task import Task
from tests.corpus.test_faults import KERNEL


def find_task() -> Task:
    entry = next(e for e in builtin_suite().tasks if e.id == "l1-rsqrt-2d")
    return load_task(entry.path, name=entry.id)


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


def test_what_does_not_fit_whole_is_not_made() -> None:
    task, solution = find_task(), make_solution(KERNEL)
    found = short_form(task, solution)
    assert found is not None
    assert "return torch.rsqrt(x)" in found.prompt.user
    assert short_form(task, solution, tokens_max=20) is None
    assert short_form(task, make_solution(KERNEL + "x = 1\n" * 300)) is None


def test_tokens_are_counted_as_asked() -> None:
    assert short_form(find_task(), make_solution(KERNEL), count=len) is None
