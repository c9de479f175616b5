"""Applies the edits that findings carry, until none is left.

Law: a file that does not parse is not touched, and no edit makes one that does not parse; a second
call on the result changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.check.editing import apply_edits
from nki_agent.check.parsed import SourceError, parse_file
from nki_agent.check.source import FINDINGS_MAX, find_all
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target

ROUNDS_MAX = 20
"""Rounds of checking and editing; an edit can make room for the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """A kernel file after its edits."""

    text: str
    num_fixes: int
    findings: tuple[Diagnostic, ...]
    """What is left to find, in helper modules too."""


def fix_source(
    files: Mapping[str, str], main: str, *, target: Target, surface: Surface = Surface.NKI
) -> Fixed:
    """Apply the edits of the file `main`; helper modules beside it are only read."""
    current = dict(files)
    total = 0
    findings = find_all(current, main, target=target, surface=surface)
    for _ in range(ROUNDS_MAX):
        text, served = apply_edits(current[main], findings, file=main)
        if text == current[main] or _has_lone_return(text) or not _parses(main, text):
            break
        current[main] = text
        total += served
        findings = find_all(current, main, target=target, surface=surface)
    return Fixed(text=current[main], num_fixes=total, findings=tuple(findings[:FINDINGS_MAX]))


def _has_lone_return(text: str) -> bool:
    """Whether Python and we would count the lines differently."""
    return "\r" in text.replace("\r\n", "")


def _parses(name: str, text: str) -> bool:
    try:
        parse_file(name, text, module_name="")
    except SourceError:
        return False
    return True
