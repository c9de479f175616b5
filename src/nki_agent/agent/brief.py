"""Text that a model can afford to read: whole where it is short, summed up where it is not.

Law: nothing is cut inside of a word, and what is left out is counted. Text of a kernel is cleaned
first.
"""

from __future__ import annotations

import re
from itertools import accumulate

import msgspec

from nki_agent.base.diagnostic import TEXT_LIMIT, Diagnostic, Frame, clean

FIELD_BYTES_MAX = TEXT_LIMIT
"""Of one field of a diagnostic; only few honest ones are longer than half of it."""
READ_MAX = 20_000
"""Characters that are looked at: a text that is longer is only ever an attack."""
FRAMES_SHOWN_MAX = 3
WORD_LENGTH_MAX = 64
_WORD = re.compile(rf"[^\s`]{{{WORD_LENGTH_MAX},}}")
_CLAUSE_END = (";", ".", ",", ":")


def write_brief(diagnostic: Diagnostic) -> str:
    """A diagnostic as two lines of bounded length, with the calls nearest to the fault."""
    where = diagnostic.where
    kept = where[-FRAMES_SHOWN_MAX:]
    text = str(
        msgspec.structs.replace(
            diagnostic,
            what=sum_up(diagnostic.what),
            got=sum_up(diagnostic.got),
            limit=sum_up(diagnostic.limit),
            hint=sum_up(diagnostic.hint),
            where=tuple(Frame(_shorten(f.file), f.line, f.function) for f in kept),
        )
    )
    if more := len(where) - len(kept):
        head, sign, hint = text.partition("\n  hint: ")
        text = f"{head}\n  and {more} more calls around it{sign}{hint}"
    return text


def sum_up(text: str, *, max_bytes: int = FIELD_BYTES_MAX) -> str:
    """Text of at most so many bytes: its first clauses, and how many words are left out.

    >>> sum_up("one two; three four; five six", max_bytes=24)
    'one two; (4 words more)'
    """
    words = [clean(_WORD.sub(_shorten_word, word)) for word in text[:READ_MAX].split()]
    is_cut = words[-1:] != [] and words[-1].endswith("…")  # what `clean` has left of a long text
    whole_text = " ".join(words)
    if len(whole_text.encode()) <= max_bytes and not is_cut:
        return whole_text
    words = words[:-1] if is_cut else words
    room = max_bytes - len(_count(len(words)))
    sizes = accumulate(len(word.encode()) + 1 for word in words)
    fitting = sum(size <= room for size in sizes)
    whole = [n for n in range(1, fitting + 1) if words[n - 1].endswith(_CLAUSE_END)]
    kept = whole[-1] if whole and whole[-1] * 2 >= fitting else fitting
    return " ".join(words[:kept]) + _count(len(words) - kept + is_cut)


def _count(words: int) -> str:
    return f" ({words} words more)"


def _shorten_word(found: re.Match[str]) -> str:
    return _shorten(found[0])


def _shorten(name: str) -> str:
    """Both ends of a long name."""
    if len(name) <= WORD_LENGTH_MAX:
        return name
    half = WORD_LENGTH_MAX // 2
    return f"{name[: half - 1]}…{name[-half:]}"
