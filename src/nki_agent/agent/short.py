"""A task and a verdict in as few words as will do, for models with little room.

Law: everything a kernel must know is there: arguments in order, shapes, dtypes, outputs, and the
reference's own lines; of a verdict the stage and the first fault. No tool is shown: a kernel comes
as text and is judged as far as the tools go.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Sequence

from nki_agent.agent.ablation import Ablation, PromptKind
from nki_agent.agent.answers import Draft
from nki_agent.agent.brief import write_brief
from nki_agent.agent.repeats import Earlier
from nki_agent.agent.tools import Toolbox
from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.llm.protocol import ToolSpec
from nki_agent.task.task import (
    Argument,
    Form,
    Output,
    StaticArgument,
    Task,
    TensorArgument,
    TensorKind,
)
from nki_agent.verify.look import Look
from nki_agent.verify.verdict import Stage, Verdict

FORWARD = "forward"


class ShortToolbox(Toolbox):
    """The same tools with short answers, and none of them shown."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Nothing to call: a kernel comes as text."""
        return ()

    def _write(self, verdict: Verdict, draft: Draft) -> str:
        del draft
        return write_stage(verdict.stage, verdict.diagnostics)

    def _write_look(self, found: Look, draft: Draft) -> str:
        del draft
        return "compiles" if found.stage is None else write_stage(found.stage, found.diagnostics)

    def _write_same(self, earlier: Earlier, draft: Draft) -> str:
        del draft
        stage = "compiles" if earlier.stage is None else earlier.stage.value
        return f"{stage}, as before: this kernel was sent already"


def choose_toolbox(ablation: Ablation) -> type[Toolbox]:
    """The tools that go with a prompt."""
    return ShortToolbox if ablation.prompt is PromptKind.SHORT else Toolbox


def write_short_task(task: Task) -> str:
    """Arguments, outputs, and what the reference does with them."""
    lines = [*map(_write_argument, task.arguments), *map(_write_output, task.outputs)]
    return "\n".join((*lines, *_list_steps(task)))


def write_stage(stage: Stage, diagnostics: Sequence[Diagnostic]) -> str:
    """The stage and its first fault on one line."""
    fault = next((d for d in diagnostics if d.severity is Severity.ERROR), None)
    if stage is Stage.RIGHT or fault is None:
        return stage.value
    return f"{stage.value}: {write_brief(fault).splitlines()[0]}"


def _write_argument(argument: Argument) -> str:
    match argument:
        case StaticArgument():
            return f"{argument.name} = {argument.value!r}"
        case TensorArgument():
            update = " updated" if argument.is_updated else ""
            return f"{argument.name}: {argument.dtype.value} {list(argument.shape)}{update}"


def _write_output(output: Output) -> str:
    return f"-> {output.dtype.value} {list(output.shape)}"


def _list_steps(task: Task) -> Iterator[str]:
    """The body of the reference behind what it uses of its file; the whole text where it has none.

    Weights are arguments already, so that their declarations are left out.
    """
    tree = ast.parse(task.source)
    name = FORWARD if task.form is Form.MODULE else task.entry
    steps = _find_functions(tree, name)
    if len(steps) != 1:
        yield task.source.strip()
        return
    weights = {a.original for a in task.dev.tensors if a.kind is not TensorKind.INPUT}
    setup = [
        statement
        for function in _find_functions(tree, "__init__")
        for statement in function.body
        if not _names(statement) & {*weights, "super", "register_buffer"}
    ]
    shown = [*setup, *steps[0].body]
    for statement in _find_used(tree, shown):
        yield _cut(task.source, [statement])
    for statement in setup:
        yield _cut(task.source, [statement])
    yield _cut(task.source, steps[0].body)


def _find_functions(tree: ast.Module, name: str) -> list[ast.FunctionDef]:
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == name]


def _find_used(tree: ast.Module, shown: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Constants and functions of the file that are used, in its order."""
    makes: dict[str, ast.stmt] = {}
    for statement in ast.walk(tree):
        if isinstance(statement, ast.FunctionDef) and statement.name not in (FORWARD, "__init__"):
            makes[statement.name] = statement
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            makes[statement.targets[0].id] = statement
    wanted: set[str] = set()
    fresh = set().union(*map(_names, shown)) & makes.keys()
    while fresh:
        wanted |= fresh
        fresh = set().union(*(_names(makes[name]) for name in fresh)) & makes.keys() - wanted
    return [statement for name, statement in makes.items() if name in wanted]


def _names(node: ast.AST) -> set[str]:
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return found | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def _cut(source: str, statements: Sequence[ast.stmt]) -> str:
    first, last = statements[0].lineno, statements[-1].end_lineno
    return textwrap.dedent("\n".join(source.splitlines()[first - 1 : last]))
