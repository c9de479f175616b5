"""Numbers with their nouns, as messages say them. Law: one thing is never several."""

from __future__ import annotations


def count_of(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun in the right form.

    >>> count_of(1, "file"), count_of(2, "reply", "replies")
    ('1 file', '2 replies')
    """
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"
