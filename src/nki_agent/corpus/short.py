"""Kernels in few tokens, for models that read and write little.

Law: the short kernel is the solution without what Python does not run (comments, docstrings,
blank lines), so it computes the same; the prompt is the agent's short one, so that a model meets
the same words when it is measured. What does not fit whole is not made.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Final

from nki_agent.agent.ablation import PromptKind, make_ablation
from nki_agent.agent.episode import Limits, Mode
from nki_agent.agent.prompt import Prompt, make_prompt
from nki_agent.chip.spec import Target
from nki_agent.corpus.chat import CountTokens, estimate_tokens
from nki_agent.corpus.record import Solution
from nki_agent.task.task import Task

TOKENS_MAX: Final = 256
"""Of the prompt, and of the kernel."""
INDENT: Final = 4
SHORT: Final = make_ablation(PromptKind.SHORT, None, mode=Mode.SINGLE_SHOT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortForm:
    """A prompt and the kernel that answers it."""

    prompt: Prompt
    kernel: str


def short_form(
    task: Task,
    solution: Solution,
    *,
    tokens_max: int = TOKENS_MAX,
    count: CountTokens = estimate_tokens,
) -> ShortForm | None:
    """The short form of a task and its solution; None where one of both is too long."""
    prompt = make_prompt(
        task,
        target=Target(solution.target),
        mode=Mode.SINGLE_SHOT,
        limits=Limits(),
        ablation=SHORT,
    )
    kernel = shorten(solution.kernel)
    if count(prompt.system + prompt.user) > tokens_max or count(kernel) > tokens_max:
        return None
    return ShortForm(prompt=prompt, kernel=kernel)


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
