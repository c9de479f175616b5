"""Words of a text, as look-up compares them."""

from __future__ import annotations

import re

WORD_LENGTH_MIN = 3
_WORD = re.compile(r"[a-z0-9_]+")


def find_words(text: str) -> set[str]:
    """Words in lower case; `tensor_tensor` counts as itself and as its parts.

    >>> sorted(find_words("A tensor_copy of x"))
    ['copy', 'tensor', 'tensor_copy']
    """
    words = set(_WORD.findall(text.lower()))
    words |= {part for word in words for part in word.split("_")}
    return {word for word in words if len(word) >= WORD_LENGTH_MIN}
