"""The edits that the checker would make itself, as lines a model can copy.

Law: a fix is shown only where the checker is sure of it; what is shown, applied together, is what
`nki-agent check --fix` would write.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from nki_agent.agent.brief import sum_up
from nki_agent.check.fixing import fix_source
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.verify.kernel import MAIN_NAME

LINES_SHOWN_MAX = 6
SOURCE_BYTES_MAX = 64 * 1024
"""A longer kernel is not read again for it."""
LINE_BYTES_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """A kernel after its edits, and the lines that changed."""

    text: str
    changes: tuple[str, ...]

    def __str__(self) -> str:
        """What to write where."""
        shown = self.changes[:LINES_SHOWN_MAX]
        lines = ["Write instead (this is mechanical):", *shown]
        if more := len(self.changes) - len(shown):
            lines.append(f"  and {more} more lines of the same kind")
        return "\n".join(lines)


def find_fix(source: str, *, target: Target, surface: Surface = Surface.NKI) -> Fix | None:
    """The checker's own edits; None where it has none."""
    if len(source) > SOURCE_BYTES_MAX:
        return None
    fixed = fix_source({MAIN_NAME: source}, MAIN_NAME, target=target, surface=surface)
    if fixed.text == source:
        return None
    return Fix(text=fixed.text, changes=tuple(_list_changes(source, fixed.text)))


def _list_changes(before: str, after: str) -> list[str]:
    old, new = before.splitlines(), after.splitlines()
    changes = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            continue
        place = f"line {start + 1}" if end - start == 1 else f"lines {start + 1}-{end}"
        if start == end:
            place = f"before line {start + 1}"
        lines = [sum_up(line.strip(), max_bytes=LINE_BYTES_MAX) for line in new[new_start:new_end]]
        changes.append(f"  {place}: " + ("`" + "`, `".join(lines) + "`" if lines else "remove it"))
    return changes
