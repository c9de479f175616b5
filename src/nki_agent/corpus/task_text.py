"""Writes a draft as a task file in the declared form.

Law: the text is as the formatter leaves it: no line is longer than the limit, since a long
expression is taken apart into named ones, and brackets break as the formatter breaks them.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np

from nki_agent.corpus.expand import BFLOAT16, FLOAT32, WORK, Draft, Statement, Tensor
from nki_agent.corpus.naming import name_tensors, replace_tokens
from nki_agent.corpus.shape_text import names_in
from nki_agent.corpus.tolerances import choose_class

WIDTH = 100
_EXPONENT = re.compile(r"\b(\d+(?:\.\d+)?)e-0(\d)\b")
_POWER = re.compile(r"\*\* \(-([\d.]+)\)")
_STRINGS = re.compile(r"'([^'\"]*)'")
_FUNCTION_SHARE = 0.25
_UPDATE_SHARE = 0.5
_MANY = 2
_TORCH_NAMES = {"float8_e4m3": "float8_e4m3fn", "uint8": "uint8"}
_BODY, _METHOD = "    ", "        "


def write_task(
    draft: Draft, shapes: Mapping[str, Mapping[str, int]], rng: np.random.Generator
) -> str:
    """The whole file."""
    names = name_tensors(draft)
    updated = _choose_update(draft, rng)
    is_function = not draft.weights and not draft.holds and rng.random() < _FUNCTION_SHARE
    returned = [n for n in draft.pattern.outputs if n != f"new_{updated}"]
    body = _write_body(draft, names, returned, updated)
    code = (
        _write_function(draft, names, body, returned)
        if is_function
        else _write_module(draft, names, body, returned)
    )
    code = "\n\n\n".join([*draft.helpers.values(), code])
    blocks = [
        _write_docstring(draft),
        _write_imports(code, is_function=is_function),
        _write_declarations(draft, names, shapes, returned, updated),
    ]
    return "\n\n".join(blocks) + "\n\n\n" + code + "\n"


# -- the head -------------------------------------------------------------------------------------
def _write_docstring(draft: Draft) -> str:
    dtype = f"in {draft.dtype}"
    steps = _write_steps(draft)
    title = draft.pattern.title or steps[:1].upper() + steps[1:]
    if not draft.pattern.title and draft.subject:
        title += f" over {draft.subject}"
    summary = f"{title}, {dtype}."
    if draft.pattern.title and steps:
        steps = steps[:1].upper() + steps[1:] + "."
        text = "\n".join(textwrap.wrap(steps, WIDTH - 2))
        return f'"""{summary}\n\n{text}\n"""'
    if len(summary) + 6 <= WIDTH:
        return f'"""{summary}"""'
    text = "\n".join(textwrap.wrap(summary, WIDTH - 3))
    return f'"""{text}\n"""'


def _write_steps(draft: Draft) -> str:
    pattern = draft.pattern
    if not pattern.words:
        return ", then ".join(o.words for o in draft.operators if o.words)
    filled = re.sub(r"\{(\w+)\}", lambda m: draft.words.get(m[1], "") or "nothing", pattern.words)
    return filled.strip()


def _write_imports(code: str, *, is_function: bool) -> str:
    lines = ["import torch"]
    if "F." in code:
        lines.append("import torch.nn.functional as F")
    if not is_function:
        lines.append("from torch import nn")
    return "\n".join(lines)


def _write_declarations(
    draft: Draft,
    names: Mapping[str, str],
    shapes: Mapping[str, Mapping[str, int]],
    returned: Sequence[str],
    updated: str,
) -> str:
    lines = ["SHAPES = {"]
    for name, sizes in shapes.items():
        row = ", ".join(f'"{size}": {number}' for size, number in sizes.items())
        lines += _fit(f'    "{name}": {{', row, "},", indent="    ")
    lines.append("}")
    outputs = {n: _declare_output(draft, n) for n in returned}
    lines += _write_mapping("INPUTS", {names[t.token]: t.declared for t in draft.inputs})
    if draft.weights:
        lines += _write_mapping("PARAMETERS", {names[t.token]: t.declared for t in draft.weights})
    lines += _write_mapping("OUTPUTS", outputs)
    if updated:
        lines.append(f'UPDATES = ("{updated}",)')
    lines.append(f'TOLERANCE = "{choose_class(draft)}"')
    lines += [f'{name} = "{text}"' for name, text in draft.pattern.work.items()]
    return "\n".join(lines)


def _declare_output(draft: Draft, name: str) -> str:
    value = draft.values[name]
    dtype = value.dtype or draft.dtype
    return f"{dtype}[{', '.join(value.axes or ('1',))}]"


def _write_mapping(name: str, entries: Mapping[str, str]) -> list[str]:
    row = ", ".join(f'"{key}": "{text}"' for key, text in entries.items())
    if len(row) + len(name) + len(" = {}") <= WIDTH:
        return [f"{name} = {{{row}}}"]
    return [f"{name} = {{", *(f'    "{key}": "{text}",' for key, text in entries.items()), "}"]


def _fit(head: str, row: str, tail: str, *, indent: str) -> list[str]:
    if len(head) + len(row) + len(tail) <= WIDTH:
        return [head + row + tail]
    inner = indent + "    "
    return [head, *(f"{inner}{part}," for part in row.split(", ")), indent + tail]


# -- the code -------------------------------------------------------------------------------------
def _choose_update(draft: Draft, rng: np.random.Generator) -> str:
    """The input that is updated in place, or nothing."""
    names = draft.pattern.updates
    if not names or rng.random() >= _UPDATE_SHARE or len(draft.pattern.outputs) < _MANY:
        return ""
    return str(rng.choice(list(names)))


def _write_body(
    draft: Draft, names: Mapping[str, str], returned: Sequence[str], updated: str
) -> list[str]:
    statements = list(draft.statements)
    results = [draft.values[n].text for n in returned]
    casts = [draft.is_wide and draft.values[n].dtype == WORK for n in returned]
    last = statements[-1] if statements else None
    if (
        last is not None
        and last.targets == (results[0],)
        and not (len(results) > 1 or casts[0] or updated)
    ):
        statements.pop()
        results = [last.text]
    lines = _write_widening(draft, names)
    taken = {t for s in draft.statements for t in s.targets} | set(names.values())
    for statement in statements:
        lines += _write_statement(statement, names, taken)
    if updated:
        lines.append(f"{updated}.copy_({draft.values[f'new_{updated}'].text})")
    if len(results) == 1 and not casts[0]:
        return lines + _write_return(results[0], names, taken)
    texts = [
        f"{text}.to(torch.{BFLOAT16})" if cast else text
        for text, cast in zip(results, casts, strict=True)
    ]
    return [*lines, "return " + replace_tokens(", ".join(texts), names)]


def _write_widening(draft: Draft, names: Mapping[str, str]) -> list[str]:
    """The inputs in float32, by which the task computes."""
    if not draft.is_wide:
        return []
    inputs = [names[t.token] for t in draft.inputs if t.dtype == BFLOAT16]
    row = ", ".join(inputs)
    if len(inputs) <= _MANY:
        return [f"{row} = {', '.join(f'{name}.float()' for name in inputs)}"] if inputs else []
    line = f"{row} = (t.float() for t in ({row}))"
    if len(_METHOD) + len(line) <= WIDTH:
        return [line]
    return [f"{row} = (", f"{_BODY}t.float() for t in ({row})", ")"]


def _write_statement(statement: Statement, names: Mapping[str, str], taken: set[str]) -> list[str]:
    head = ", ".join(statement.targets) + " = "
    return _write_line(head, replace_tokens(statement.text, names), taken)


def _write_return(text: str, names: Mapping[str, str], taken: set[str]) -> list[str]:
    return _write_line("return ", replace_tokens(text, names), taken)


def _write_line(head: str, text: str, taken: set[str]) -> list[str]:
    """One line, after others that name parts of it where it is too long."""
    lines: list[str] = []
    while len(_METHOD) + len(head) + len(_polish(text)) > WIDTH:
        if broken := _break_call(head, text):
            return [*lines, *broken]
        name = _fresh("part", taken)
        part, rest = _take_part(text, name)
        if not part:
            break
        taken.add(name)
        lines.append(f"{name} = {_polish(part)}")
        text = rest
    return [*lines, head + _polish(text)]


def _break_call(head: str, text: str) -> list[str]:
    """A call with its arguments on a line of their own; nothing where they have no room."""
    body = ast.parse(text, mode="eval").body
    if not isinstance(body, ast.Call) or any(
        isinstance(node, ast.Call) for node in ast.walk(body.func)
    ):
        return []
    function = _polish(ast.unparse(body.func))
    row = _polish(ast.unparse(body)).removeprefix(function)[1:-1]
    if len(_METHOD + _BODY) + len(row) > WIDTH or len(_METHOD) + len(head + function) >= WIDTH:
        return []
    return [f"{head}{function}(", _BODY + row, ")"]


def _fresh(name: str, taken: set[str]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}{number}"
    return found


def _take_part(text: str, name: str) -> tuple[str, str]:
    """The longest part of an expression that has room on a line of its own, and the rest."""
    tree = ast.parse(text, mode="eval")
    room = WIDTH - len(_METHOD) - len(name) - len(" = ")
    best: ast.expr | None = None
    best_text = ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call | ast.BinOp) and node is not tree.body:
            found = ast.unparse(node)
            if len(best_text) < len(found) <= room:
                best, best_text = node, found
    if best is None:
        return "", text
    replaced = _Replacer(best, name).visit(tree)
    return best_text, ast.unparse(replaced)


class _Replacer(ast.NodeTransformer):
    def __init__(self, part: ast.expr, name: str) -> None:
        self._part = part
        self._name = name

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._part:
            return ast.Name(id=self._name, ctx=ast.Load())
        found: ast.AST = super().visit(node)
        return found


def _polish(text: str) -> str:
    """What the formatter does that `ast.unparse` does not."""
    text = _POWER.sub(r"** -\1", _EXPONENT.sub(r"\1e-\2", text))
    return _STRINGS.sub(r'"\1"', text)


def _write_function(
    draft: Draft, names: Mapping[str, str], body: Sequence[str], returned: Sequence[str]
) -> str:
    inputs = [f"{names[t.token]}: torch.Tensor" for t in draft.inputs]
    head = _write_signature("def reference(", inputs, _annotation(returned), indent="")
    return "\n".join([*head, *(_BODY + line for line in body)])


def _write_module(
    draft: Draft, names: Mapping[str, str], body: Sequence[str], returned: Sequence[str]
) -> str:
    lines = ["class Model(nn.Module):"]
    lines += _write_constructor(draft, names)
    inputs = ["self", *(f"{names[t.token]}: torch.Tensor" for t in draft.inputs)]
    lines += _write_signature("def forward(", inputs, _annotation(returned), indent=_BODY)
    lines += [_METHOD + line for line in body]
    return "\n".join(lines)


def _annotation(returned: Sequence[str]) -> str:
    if len(returned) == 1:
        return "torch.Tensor"
    inner = (
        ", ".join(["torch.Tensor"] * len(returned))
        if len(returned) <= _MANY
        else "torch.Tensor, ..."
    )
    return f"tuple[{inner}]"


def _write_signature(head: str, arguments: Sequence[str], result: str, *, indent: str) -> list[str]:
    row = ", ".join(arguments)
    tail = f") -> {result}:"
    if len(indent) + len(head) + len(row) + len(tail) <= WIDTH:
        return [indent + head + row + tail]
    inner = indent + "    "
    if len(inner) + len(row) <= WIDTH:
        return [indent + head, inner + row, indent + tail]
    return [indent + head, *(f"{inner}{a}," for a in arguments), indent + tail]


def _write_constructor(draft: Draft, names: Mapping[str, str]) -> list[str]:
    if not draft.weights and not draft.holds:
        return []
    named = [axis for t in draft.weights for axis in t.axes] + list(draft.holds.values())
    used = set().union(*(names_in(axis) for axis in named))
    sizes = [size for size in draft.sizes if size in used]
    arguments = ["self", *(f"{size}: int" for size in sizes)]
    lines = _write_signature("def __init__(", arguments, "None", indent=_BODY)
    lines.append(_METHOD + "super().__init__()")
    lines += [f"{_METHOD}self.{name} = {size}" for name, size in draft.holds.items()]
    for tensor in draft.weights:
        lines += _write_weight(tensor, names[tensor.token])
    return [*lines, ""]


def _write_weight(tensor: Tensor, name: str) -> list[str]:
    shape = ", ".join(tensor.axes)
    dtype = _TORCH_NAMES.get(tensor.dtype, tensor.dtype)
    stated = "" if tensor.dtype == FLOAT32 else f", dtype=torch.{dtype}"
    empty = f"torch.empty({shape}{stated})"
    if tensor.dtype in (FLOAT32, BFLOAT16, "float16"):
        return [f"{_METHOD}self.{name} = nn.Parameter({empty})"]
    return [f'{_METHOD}self.register_buffer("{name}", {empty})']
