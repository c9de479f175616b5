"""Draws candidates from a grammar.

Law: a candidate depends on the root seed, its pattern's name and its number among that pattern's,
and on nothing else: other patterns, their order and the number asked for change none of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nki_agent.base.seeds import rng_for
from nki_agent.corpus.candidate import Candidate, name_candidate
from nki_agent.corpus.expand import Draft, NothingFits, expand
from nki_agent.corpus.grammar import Grammar, Pattern
from nki_agent.corpus.size_draw import SizesDoNotFit, draw_shapes
from nki_agent.corpus.task_text import write_task

TRIES = 20
"""Draws of one candidate until its operators and sizes fit together."""


def plan_candidates(grammar: Grammar, *, number: int) -> Iterator[tuple[str, int]]:
    """Pattern and index of about `number` candidates, of each pattern as its share says."""
    total = sum(p.share for p in grammar.patterns.values())
    for name in sorted(grammar.patterns):
        for index in range(max(1, round(number * grammar.patterns[name].share / total))):
            yield name, index


def draw_candidates(grammar: Grammar, *, root: int, number: int) -> Iterator[Candidate]:
    """About `number` candidates, as many of each pattern as its share says."""
    seen: set[str] = set()
    for name, index in plan_candidates(grammar, number=number):
        candidate = draw_candidate(grammar, grammar.patterns[name], root=root, index=index)
        if candidate is not None and candidate.source not in seen:
            seen.add(candidate.source)
            yield candidate


def draw_candidate(
    grammar: Grammar, pattern: Pattern, *, root: int, index: int
) -> Candidate | None:
    """One candidate; None where nothing fits together."""
    for attempt in range(TRIES):
        rng = rng_for(root, "candidate", pattern.name, index, attempt)
        drawn = _try_once(grammar, pattern, rng)
        if drawn is None:
            continue
        draft, source = drawn
        return Candidate(
            id=name_candidate(pattern.family, pattern.name, source),
            source=source,
            family=pattern.family,
            pattern=pattern.name,
            operators=tuple(o.name for o in draft.operators),
            level=pattern.level,
            index=index,
        )
    return None


def _try_once(
    grammar: Grammar, pattern: Pattern, rng: np.random.Generator
) -> tuple[Draft, str] | None:
    try:
        draft = expand(grammar, pattern, rng)
        shapes = draw_shapes(grammar, draft, rng)
    except (NothingFits, SizesDoNotFit):
        return None
    return draft, write_task(draft, shapes, rng)
