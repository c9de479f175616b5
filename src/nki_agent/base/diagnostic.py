"""One grammar for every fault that a kernel or a task can have.

Law: the same fault has the same code and words whether the checker, the tracer, the memory pass or
the judge finds it. Text taken from a kernel (names, paths, messages) is untrusted: `clean` strips
control characters and bounds its length before it is shown.
"""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec

TEXT_LIMIT = 400
"""Characters kept of any text that came from a kernel; longer names are only ever an attack."""
FRAMES_MAX = 32
"""Innermost frames kept of a kernel's call stack."""


class Severity(StrEnum):
    """How a finding counts: an error fails a kernel, a warning does not.

    Advice is about speed, and about names that a later NKI will not have.
    """

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """One level of a call stack in kernel source, outermost first in a stack."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        """`file:line`, cleaned."""
        return f"{clean(self.file)}:{self.line}"


Stack = tuple[Frame, ...]

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Edit(msgspec.Struct, frozen=True, array_like=True):
    """Source to put in the place of other source. Lines count from 1, columns in characters from 0.

    What lies from (`line`, `column`) up to (`end_line`, `end_column`) goes; where both are equal,
    nothing does.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, where, what was found, what is allowed, and what to do."""

    code: str
    what: str
    severity: Severity = Severity.ERROR
    where: Stack = ()
    got: str = ""
    limit: str = ""
    hint: str = ""
    edits: tuple[Edit, ...] = ()
    """The fix, where it is mechanical: all of them together or none."""

    def __str__(self) -> str:
        """Two lines for people and models: the fact, then the hint."""
        place = f"{self.where[-1]}: " if self.where else ""
        label = "" if self.severity is Severity.ERROR else f"{self.severity.value}: "
        text = f"{place}{self.code} {label}{clean(self.what)}"
        if self.got:
            text += f" is {clean(self.got)}" if self.limit else f": {clean(self.got)}"
        if self.limit:
            text += f", but {'the limit' if self.got else 'it'} is {clean(self.limit)}"
        for frame in reversed(self.where[:-1]):
            text += f"\n  called from {frame}"
        if self.hint:
            text += f"\n  hint: {clean(self.hint)}"
        return text


def bounded(finding: Diagnostic) -> Diagnostic:
    """The same finding with clean text and a short stack, safe to keep and to pass on."""
    return Diagnostic(
        code=finding.code,
        what=clean(finding.what),
        severity=finding.severity,
        where=bounded_stack(finding.where),
        got=clean(finding.got),
        limit=clean(finding.limit),
        hint=clean(finding.hint),
    )


def bounded_stack(stack: Stack) -> Stack:
    """The innermost frames of a stack with clean names."""
    return tuple(Frame(clean(f.file), f.line, clean(f.function)) for f in stack[-FRAMES_MAX:])


def clean(text: object) -> str:
    """Make untrusted text safe to print: no control characters, at most `TEXT_LIMIT` long.

    A line end is a space. Addresses of Python objects are left out, since they differ from process
    to process.
    """
    start = _ADDRESS.sub("", str(text)[: 2 * TEXT_LIMIT])[: TEXT_LIMIT + 1]
    if start.isprintable() and len(start) <= TEXT_LIMIT:
        return start
    kept = "".join(c if c.isprintable() else " " if c in "\n\r\t" else "�" for c in start)
    return kept if len(kept) <= TEXT_LIMIT else kept[: TEXT_LIMIT - 1] + "…"
