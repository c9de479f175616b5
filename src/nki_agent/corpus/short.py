"""Kernels in few tokens, for models that read and write little.

The kernel is the built-in author's plainest: what it does for an engine's sake differs from task to
task, makes kernels longer, and does not decide whether one is right.

Law: the short kernel lacks what Python does not run (comments, docstrings, blank lines), so it
computes the same; the prompt is the agent's short one, so that a model meets the same words when it
is measured. What does not fit whole is not taught.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Final

from nki_agent.agent.ablation import PromptKind, make_ablation
from nki_agent.agent.episode import Limits, Mode
from nki_agent.agent.prompt import Prompt, make_prompt
from nki_agent.builtin.choices import PLAIN
from nki_agent.builtin.graph import UnsupportedError
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.corpus.chat import CountTokens
from nki_agent.corpus.record import Solution
from nki_agent.task.task import Task

TOKENS_MAX: Final = 256
"""Of the prompt, and of the reply."""
BYTES_MAX: Final = 8 * TOKENS_MAX
"""Of either: the tokenizers of large models have fewer than eight bytes of code in a token."""
INDENT: Final = 4
SHORT: Final = make_ablation(PromptKind.SHORT, None, mode=Mode.SINGLE_SHOT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortForm:
    """A prompt and the kernel that answers it."""

    prompt: Prompt
    kernel: str


def short_form(task: Task, solution: Solution) -> ShortForm:
    """The short form of a solved task, however long."""
    target = Target(solution.target)
    kernel = _write_plain(task, target) or solution.kernel
    return ShortForm(prompt=short_prompt(task, target), kernel=shorten(kernel))


def short_prompt(task: Task, target: Target) -> Prompt:
    """What a model is told of a task, single shot or loop."""
    return make_prompt(task, target=target, mode=Mode.SINGLE_SHOT, limits=Limits(), ablation=SHORT)


def is_short(prompt: str, reply: str, *, count: CountTokens, tokens_max: int = TOKENS_MAX) -> bool:
    """Whether both are as short as a small model needs them."""
    return max(count(prompt), count(reply)) <= tokens_max


def _write_plain(task: Task, target: Target) -> str | None:
    """The plainest kernel; None where only other choices can be written."""
    try:
        return write_kernel(task, target, choices=PLAIN)
    except UnsupportedError:
        return None


def shorten(source: str) -> str:
    r"""Python without comments, docstrings, annotations, blank lines and wide indents.

    >>> shorten('def f(x: int) -> int:\n    "Adds one."\n\n    return x + 1  # one more\n')
    'def f(x):\n return x + 1\n'
    """
    tree = _Bare().visit(ast.parse(source))
    lines = ast.unparse(ast.fix_missing_locations(tree)).splitlines()
    return "".join(f"{_outdent(line)}\n" for line in lines if line.strip())


def _outdent(line: str) -> str:
    """One blank for each level; `unparse` writes no text over several lines but in a docstring."""
    bare = line.lstrip()
    return " " * ((len(line) - len(bare)) // INDENT) + bare


class _Bare(ast.NodeTransformer):
    """Takes away what is not run."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """A function without docstring and annotations."""
        node.returns = None
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            argument.annotation = None
        return self._strip(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """A class without docstring."""
        return self._strip(node)

    def visit_Module(self, node: ast.Module) -> ast.AST:
        """A file without docstring."""
        return self._strip(node)

    def _strip(self, node: ast.FunctionDef | ast.ClassDef | ast.Module) -> ast.AST:
        self.generic_visit(node)
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return node
