"""Edits of source: made from nodes of the tree, and applied to text.

Law: an edit only replaces what it was made for; everything else keeps its bytes, comments and line
ends included. Edits of one finding are applied together or not at all, and those that overlap with
edits that were taken before wait for the next round.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from nki_agent.base.diagnostic import Diagnostic, Edit
from nki_agent.check.parsed import ParsedFile

Position = tuple[int, int]
"""Line from 1, column in characters from 0."""


def start_of(file: ParsedFile, node: ast.expr | ast.stmt | ast.keyword | ast.alias) -> Position:
    """Where a node begins."""
    return node.lineno, _column(file, node.lineno, node.col_offset)


def end_of(file: ParsedFile, node: ast.expr | ast.stmt | ast.keyword | ast.alias) -> Position:
    """Where a node ends."""
    line = node.end_lineno or node.lineno
    return line, _column(file, line, node.end_col_offset or node.col_offset)


def _column(file: ParsedFile, line: int, offset: int) -> int:
    """A column in characters for one in bytes."""
    text = file.lines[line - 1] if line <= len(file.lines) else ""
    if text.isascii():
        return offset
    return len(text.encode()[:offset].decode(errors="replace"))


def text_between(file: ParsedFile, start: Position, end: Position) -> str:
    """The source from one position up to another."""
    (line, column), (end_line, end_column) = start, end
    if line == end_line:
        return file.lines[line - 1][column:end_column]
    middle = file.lines[line : end_line - 1]
    return "\n".join(
        [file.lines[line - 1][column:], *middle, file.lines[end_line - 1][:end_column]]
    )


def text_of(file: ParsedFile, node: ast.expr | ast.keyword) -> str:
    """The source of a node, whatever its length."""
    return text_between(file, start_of(file, node), end_of(file, node))


def replace(file: ParsedFile, start: Position, end: Position, text: str) -> Edit:
    """An edit that puts `text` in the place of what lies between two positions."""
    return Edit(file.name, *start, *end, text)


def replace_node(file: ParsedFile, node: ast.expr, text: str) -> Edit:
    """An edit that puts `text` in the place of a node."""
    return replace(file, start_of(file, node), end_of(file, node), text)


def replace_attribute(file: ParsedFile, node: ast.Attribute, name: str) -> tuple[Edit, ...]:
    """The edit that gives `x.old` the name `x.name`; none where the source spells it otherwise."""
    line, column = end_of(file, node)
    start = (line, column - len(node.attr))
    if start[1] < 0 or text_between(file, start, (line, column)) != node.attr:
        return ()
    return (replace(file, start, (line, column), name),)


def remove_argument(file: ParsedFile, call: ast.Call, keyword: ast.keyword) -> tuple[Edit, ...]:
    """The edit that takes one keyword and its comma out of a call; none where a comment is near."""
    start, end = start_of(file, keyword), end_of(file, keyword)
    closing = end_of(file, call)
    after = text_between(file, end, (closing[0], closing[1] - 1))
    stripped = after.lstrip()
    if stripped.startswith(","):
        taken = after[: after.index(",") + 1]
        gap = stripped[1:]
        spaces = gap[: len(gap) - len(gap.lstrip(" "))]
        return (replace(file, start, _advance(end, taken + spaces), ""),)
    ends = [end_of(file, argument) for argument in call.args]
    ends += [end_of(file, other) for other in call.keywords if other is not keyword]
    before = [end for end in ends if end <= start]
    if stripped or not before:
        return () if stripped else (replace(file, start, end, ""),)
    gap = text_between(file, max(before), start)
    return (replace(file, max(before), end, ""),) if gap.strip() == "," else ()


def _advance(position: Position, text: str) -> Position:
    """The position behind `text` that begins at a position."""
    lines = text.split("\n")
    if len(lines) == 1:
        return position[0], position[1] + len(text)
    return position[0] + len(lines) - 1, len(lines[-1])


def apply_edits(source: str, findings: Iterable[Diagnostic], *, file: str) -> tuple[str, int]:
    """The text of `file` with the findings' edits, and how many findings were served.

    Edits of a finding that also changes another file are left out.
    """
    taken: list[Edit] = []
    served = 0
    for finding in findings:
        if not finding.edits or any(edit.file != file for edit in finding.edits):
            continue
        if set(finding.edits) <= set(taken):
            served += 1
        elif not any(_overlap(new, old) for new in finding.edits for old in taken):
            taken.extend(finding.edits)
            served += 1
    return _apply(source, taken), served


def _overlap(one: Edit, other: Edit) -> bool:
    start, end = (one.line, one.column), (one.end_line, one.end_column)
    other_start = (other.line, other.column)
    other_end = (other.end_line, other.end_column)
    return start <= other_end and other_start <= end


def _apply(source: str, edits: Sequence[Edit]) -> str:
    starts = [0]
    for line in source.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    line_end = "\r\n" if "\r\n" in source else "\n"
    for edit in sorted(edits, key=lambda e: (e.line, e.column), reverse=True):
        start = starts[edit.line - 1] + edit.column
        end = starts[edit.end_line - 1] + edit.end_column
        source = source[:start] + edit.text.replace("\n", line_end) + source[end:]
    return source
