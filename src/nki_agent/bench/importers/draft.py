"""A task as an importer read it: its text in our forms, with sizes that may still be chosen.

Law: a draft has run nothing. What an importer could not turn into a text is a draft with a problem,
so that every task of a suite is accounted for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from nki_agent.bench.importers.sizes import Template

SLUG_LENGTH_MAX: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One task of a suite before it is tried."""

    id: str
    origin: str
    """The file below the suite's folder, and the entry in it where it holds several."""
    templates: tuple[Template, ...] = ()
    """Ways to scale its text, the gentlest first; all have the same text at the suite's sizes."""
    level: int = 0
    """0 where the format has no levels."""
    category: str = ""
    notes: tuple[str, ...] = ()
    """What was changed on the way here."""
    problem: str = ""
    """Why there is no text; empty where there is one."""


def make_slug(text: str) -> str:
    """Lower case, digits and dashes only; `task` when nothing is left.

    >>> make_slug("19_ReLU.py")
    '19-relu-py'
    """
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return slug[:SLUG_LENGTH_MAX].rstrip("-") or "task"
