"""NK108: `is` and `is not` compare with None, True and False only.

Sources: migration guide to 0.3.0 bans both; published kernels use them with None everywhere.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic, Edit
from nki_agent.check.editing import end_of, replace, start_of, text_between
from nki_agent.check.parsed import ParsedFile, Unit, at
from nki_agent.check.project import Project

_SIGN = re.compile(r"[ \t)]*\b(is(?:[ \t]+not)?)\b[ \t(]*")


def check(project: Project) -> Iterator[Diagnostic]:
    """A finding for every identity comparison with anything else."""
    for unit in project.kernel_units:
        for node in unit.all(ast.Compare):
            yield from _check_compare(unit, node)


def _check_compare(unit: Unit, node: ast.Compare) -> Iterator[Diagnostic]:
    sides = [node.left, *node.comparators]
    for operator, left, right in zip(node.ops, sides[:-1], sides[1:], strict=True):
        if not isinstance(operator, ast.Is | ast.IsNot):
            continue
        if _is_singleton(left) or _is_singleton(right):
            continue
        sign, better = ("is", "==") if isinstance(operator, ast.Is) else ("is not", "!=")
        texts = [unit.file.segment(side) for side in (left, right)]
        example = f": `{texts[0]} {better} {texts[1]}`" if all(texts) else ""
        yield at(
            unit,
            node,
            Diagnostic(
                code="NK108",
                what=f"`{sign}` between values other than None, True and False",
                hint=f"use `{better}`{example}",
                edits=_edits(unit.file, left, right, better),
            ),
        )


def _edits(file: ParsedFile, left: ast.expr, right: ast.expr, better: str) -> tuple[Edit, ...]:
    """The edit of the sign alone; none where more than brackets and blanks stand beside it."""
    end = end_of(file, left)
    match = _SIGN.fullmatch(text_between(file, end, start_of(file, right)))
    if match is None:
        return ()
    start = (end[0], end[1] + match.start(1))
    return (replace(file, start, (end[0], end[1] + match.end(1)), better),)


def _is_singleton(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))
