"""Short forms: whole or not at all, and the kernel still the same program."""

import ast

from nki_agent.bench.suite import builtin_suite
from nki_agent.builtin.choices import PLAIN
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.corpus.record import Solution
from nki_agent.corpus.short import is_short, short_form, shorten
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


def test_short_form_is_the_plainest_kernel_and_the_short_prompt() -> None:
    found = short_form(find_task(), make_solution(KERNEL))
    assert "return torch.rsqrt(x)" in found.prompt.user
    assert found.kernel == shorten(write_kernel(find_task(), Target.TRN2, choices=PLAIN))


def test_both_prompt_and_reply_have_to_be_short() -> None:
    assert is_short("a" * 256, "b" * 256, count=len)
    assert not is_short("a" * 257, "b", count=len)
    assert not is_short("a", "b" * 257, count=len)
